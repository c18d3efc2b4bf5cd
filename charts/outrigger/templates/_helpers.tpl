{{- /* The minor release of the server, a number. Managed platforms report such as 28+. */ -}}
{{- define "outrigger.minor" -}}
{{- trimSuffix "+" .Capabilities.KubeVersion.Minor -}}
{{- end -}}

{{- define "outrigger.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest | toJson -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | toJson -}}
{{- end -}}
{{- end -}}

{{- /* What the webhook is in the control plane: Linkerd's injector, or another component beside it. */ -}}
{{- define "outrigger.component" -}}
{{- trimPrefix "linkerd-" .Values.name -}}
{{- end -}}

{{- define "outrigger.webhook.labels" -}}
linkerd.io/control-plane-component: {{ include "outrigger.component" . }}
linkerd.io/control-plane-ns: {{ toJson .Release.Namespace }}
{{- end -}}

{{- define "outrigger.probe.labels" -}}
linkerd.io/control-plane-component: outrigger-probe
linkerd.io/control-plane-ns: {{ toJson .Release.Namespace }}
{{- end -}}

{{- define "outrigger.secretName" -}}
{{- if .Values.certificates.secretName -}}
{{- .Values.certificates.secretName -}}
{{- else if ne .Values.certificates.mode "self" -}}
{{- .Values.name }}-k8s-tls
{{- else if eq .Values.name "linkerd-proxy-injector" -}}
outrigger-certificates
{{- else -}}
{{- /* A certificate is for one Service: who goes from one name to the other finds none of the other's. */ -}}
{{- .Values.name }}-certificates
{{- end -}}
{{- end -}}

{{- /* What webhook and probe lay over linkerd-config, YAML; nothing where the values say nothing. */ -}}
{{- define "outrigger.config" -}}
{{- if .Values.cniEnabled }}
cniEnabled: true
{{- end }}
{{- if .Values.egress.enabled }}
outrigger:
  serviceAccountLabel: true
  {{- range $key, $value := .Values.config.outrigger }}
  {{- if ne $key "serviceAccountLabel" }}
  {{ toJson $key }}: {{ toJson $value }}
  {{- end }}
  {{- end }}
{{- end }}
{{- range $key, $value := .Values.config }}
{{- if not (or (and $.Values.cniEnabled (eq $key "cniEnabled")) (and $.Values.egress.enabled (eq $key "outrigger"))) }}
{{ toJson $key }}: {{ toJson $value }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "outrigger.configMounts" -}}
- name: config
  mountPath: /var/run/linkerd/config
  readOnly: true
{{- if include "outrigger.config" . }}
- name: overrides
  mountPath: /var/run/outrigger/config
  readOnly: true
{{- end }}
- name: trust-roots
  mountPath: /var/run/linkerd/identity/trust-roots
  readOnly: true
{{ include "outrigger.apiAccessMount" . }}
{{- end -}}

{{- define "outrigger.configVolumes" -}}
- name: config
  configMap:
    name: linkerd-config
{{- if include "outrigger.config" . }}
- name: overrides
  configMap:
    name: outrigger-config
{{- end }}
- name: trust-roots
  configMap:
    name: linkerd-identity-trust-roots
{{ include "outrigger.apiAccessVolume" . }}
{{- end -}}

{{- define "outrigger.apiAccessMount" -}}
- name: kube-api-access
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}

{{- define "outrigger.apiAccessVolume" -}}
- name: kube-api-access
  projected:
    sources:
    - serviceAccountToken:
        path: token
        expirationSeconds: 3607
    - configMap:
        name: kube-root-ca.crt
        items:
        - key: ca.crt
          path: ca.crt
    - downwardAPI:
        items:
        - path: namespace
          fieldRef:
            fieldPath: metadata.namespace
{{- end -}}

{{- /* What is restricted-clean at every level, but for the user. */ -}}
{{- define "outrigger.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- if .Values.webhook.runAsUser }}
# The user of Linkerd's controllers.
runAsUser: {{ toJson .Values.webhook.runAsUser }}
{{- end }}
{{- end -}}
