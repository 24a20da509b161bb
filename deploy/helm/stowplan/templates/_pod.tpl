{{- define "stowplan.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* Metadata of a component's pods; `checksum` covers the files that are read only at start. */}}
{{- define "stowplan.podMetadata" -}}
{{- $v := index .root.Values .component -}}
labels:
  {{- $own := include "stowplan.selectorLabels" . | fromYaml }}
  {{- toYaml (merge $own $v.podLabels .root.Values.commonLabels) | nindent 2 }}
{{- if or .checksum $v.podAnnotations }}
annotations:
  {{- with .checksum }}
  checksum/config: {{ . }}
  {{- end }}
  {{- with $v.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The part of a pod's spec that all components share. */}}
{{- define "stowplan.podSpec" -}}
{{- $v := index .root.Values .component -}}
{{- $arguments := . -}}
serviceAccountName: {{ include "stowplan.serviceAccountName" . | quote }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
terminationGracePeriodSeconds: {{ int $v.terminationGracePeriodSeconds }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with $v.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $constraints := list }}
{{- range $v.topologySpreadConstraints }}
{{- $own := dict "matchLabels" (include "stowplan.selectorLabels" $arguments | fromYaml) }}
{{- $constraints = append $constraints (hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" $own)) }}
{{- end }}
{{- with $constraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The end of a container: what follows command and arguments in all components. */}}
{{- define "stowplan.container" -}}
{{- $v := index .root.Values .component -}}
{{- $port := include "stowplan.port" . | fromJson -}}
{{- $health := ternary "/metrics" "/healthz" (eq .component "static") -}}
{{- $ready := ternary "/metrics" "/readyz" (eq .component "static") -}}
ports:
- name: {{ $port.name }}
  containerPort: {{ $port.number }}
startupProbe:
  httpGet:
    path: {{ $health }}
    port: {{ $port.name }}
    scheme: {{ $port.scheme }}
  periodSeconds: 2
  {{- with $v.probes }}
  timeoutSeconds: {{ .timeoutSeconds }}
  failureThreshold: {{ .startupFailureThreshold }}
  {{- else }}
  failureThreshold: 30
  {{- end }}
livenessProbe:
  httpGet:
    path: {{ $health }}
    port: {{ $port.name }}
    scheme: {{ $port.scheme }}
  {{- with $v.probes }}
  timeoutSeconds: {{ .timeoutSeconds }}
  failureThreshold: {{ .failureThreshold }}
  {{- end }}
readinessProbe:
  httpGet:
    path: {{ $ready }}
    port: {{ $port.name }}
    scheme: {{ $port.scheme }}
  periodSeconds: 5
  {{- with $v.probes }}
  timeoutSeconds: {{ .timeoutSeconds }}
  {{- end }}
resources:
  {{- toYaml $v.resources | nindent 2 }}
securityContext:
  {{- toYaml .root.Values.securityContext | nindent 2 }}
{{- end -}}
