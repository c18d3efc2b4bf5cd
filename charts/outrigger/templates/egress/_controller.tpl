{{- define "outrigger.egress.controller.labels" -}}
linkerd.io/control-plane-component: outrigger-egress-controller
linkerd.io/control-plane-ns: {{ toJson .Release.Namespace }}
{{- end -}}
