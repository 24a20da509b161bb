{{/* A role with its binding. The argument: root, component, kind (Role or ClusterRole), name, namespace, rules. */}}
{{- define "stowplan.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ quote . }}
  {{- end }}
  labels:
    {{- include "stowplan.labels" . | nindent 4 }}
rules:
{{ toYaml .rules }}
---
{{ include "stowplan.binding" (merge (dict "role" .name "roleKind" .kind) .) }}
{{- end -}}

{{/* A binding of the component's service account to a role. The argument: as above, role, roleKind. */}}
{{- define "stowplan.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (ne (default "" .namespace) "") }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ quote . }}
  {{- end }}
  labels:
    {{- include "stowplan.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .roleKind }}
  name: {{ .role | quote }}
subjects:
{{ include "stowplan.subject" . }}
{{- end -}}
