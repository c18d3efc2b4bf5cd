{{- /* The minor release of the server, a number. Managed platforms report such as 28+. */ -}}
{{- define "outrigger-cni.minor" -}}
{{- trimSuffix "+" .Capabilities.KubeVersion.Minor -}}
{{- end -}}

{{- /* Whether the agent may patch its node: only where a policy can confine that. */ -}}
{{- define "outrigger-cni.mayPatchNodes" -}}
{{- if and .Values.startupTaint (ge (include "outrigger-cni.minor" . | int) 30) -}}yes{{- end -}}
{{- end -}}

{{- define "outrigger-cni.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest | toJson -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | toJson -}}
{{- end -}}
{{- end -}}

{{- define "outrigger-cni.labels" -}}
linkerd.io/cni-resource: "true"
{{- end -}}

{{- /* Helm alone can ask the cluster; what it cannot ask is taken to be well. */ -}}
{{- define "outrigger-cni.checkNamespace" -}}
{{- $namespace := lookup "v1" "Namespace" "" .Release.Namespace -}}
{{- if and $namespace (not .Values.createNamespace) -}}
{{- with $namespace.metadata.labels -}}
{{- $level := index . "pod-security.kubernetes.io/enforce" | default "" -}}
{{- if has $level (list "baseline" "restricted") -}}
{{- fail (printf "namespace %s has pod-security.kubernetes.io/enforce=%s, which refuses the hostPath volumes that the agent mounts: label it pod-security.kubernetes.io/enforce=privileged, or install into a namespace of its own" $.Release.Namespace $level) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
