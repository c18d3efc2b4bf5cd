{{- define "outrigger.egress.gateway.labels" -}}
linkerd.io/control-plane-component: outrigger-egress-gateway
linkerd.io/control-plane-ns: {{ toJson .Release.Namespace }}
{{- end -}}

{{- /* Where connections to the port at this place of the list come in: a port that takes no capability. */ -}}
{{- define "outrigger.egress.gateway.inbound" -}}
{{- printf "41%02d" . -}}
{{- end -}}
