{{/* Prefix of all names; leaves room for the longest suffix within 63 characters. */}}
{{- define "stowplan.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of a component's objects. The argument of this and the templates below: root, component. */}}
{{- define "stowplan.name" -}}
{{- $prefix := include "stowplan.fullname" .root -}}
{{- if eq .component "scheduler" -}}{{ $prefix }}{{- else -}}{{ $prefix }}-{{ .component }}{{- end -}}
{{- end -}}

{{/* Name of objects outside namespaces: two releases may have one name in two namespaces. */}}
{{- define "stowplan.clusterName" -}}
{{ .root.Release.Namespace }}:{{ include "stowplan.name" . }}
{{- end -}}

{{- define "stowplan.serviceAccountName" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if $account.create -}}
{{- default (include "stowplan.name" .) $account.name -}}
{{- else -}}
{{- default "default" $account.name -}}
{{- end -}}
{{- end -}}

{{- define "stowplan.selectorLabels" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ quote .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "stowplan.labels" -}}
{{- $own := include "stowplan.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_")) -}}
{{- toYaml (merge $own .root.Values.commonLabels) -}}
{{- end -}}

{{- define "stowplan.subject" -}}
- kind: ServiceAccount
  name: {{ include "stowplan.serviceAccountName" . | quote }}
  namespace: {{ quote .root.Release.Namespace }}
{{- end -}}

{{/* The components that are switched on, as a JSON list. */}}
{{- define "stowplan.enabled" -}}
{{- $found := list -}}
{{- range $component := list "scheduler" "static" "extender" -}}
{{- if (index $.Values $component).enabled -}}{{- $found = append $found $component -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* Port of a component: name, number and scheme, as JSON. */}}
{{- define "stowplan.port" -}}
{{- $v := .root.Values -}}
{{- if eq .component "scheduler" -}}
{{- toJson (dict "name" "https" "number" 10259 "scheme" "HTTPS") -}}
{{- else if eq .component "static" -}}
{{- toJson (dict "name" "metrics" "number" 8000 "scheme" "HTTP") -}}
{{- else -}}
{{- toJson (dict "name" "extender" "number" $v.extender.service.port "scheme" (ternary "HTTPS" "HTTP" (ne $v.extender.tls.secretName ""))) -}}
{{- end -}}
{{- end -}}
