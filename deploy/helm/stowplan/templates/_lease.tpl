{{/*
Lease of the scheduler, as JSON: whether it is used, its name and namespace. Flags override the
configuration, so that the Lease is the one that the Role names. Also checks what the schema cannot.
*/}}
{{- define "stowplan.lease" -}}
{{- $v := .Values.scheduler -}}
{{- $election := default dict $v.config.leaderElection -}}
{{- $elect := ne (toString $election.leaderElect) "false" -}}
{{- $name := default (include "stowplan.fullname" .) $election.resourceName -}}
{{- $namespace := default .Release.Namespace $election.resourceNamespace -}}
{{- if and (gt (int $v.replicas) 1) (not $elect) -}}
{{- fail (printf "scheduler.replicas is %d, but only one scheduler may run without leader election. Fix: set scheduler.config.leaderElection.leaderElect to true, or scheduler.replicas to 1" (int $v.replicas)) -}}
{{- end -}}
{{- if and (eq $v.scope "namespace") (ne $namespace .Release.Namespace) -}}
{{- fail (printf "scheduler.config.leaderElection.resourceNamespace is %q, but with scheduler.scope=namespace the Lease is in the release's namespace, %q. Fix: leave it out" $namespace .Release.Namespace) -}}
{{- end -}}
{{- if and $v.plugins.files $v.plugins.existingConfigMap -}}
{{- fail "scheduler.plugins.files and scheduler.plugins.existingConfigMap are both set. Fix: set one of them" -}}
{{- end -}}
{{- range $v.plugins.load -}}
{{- if and (contains ".py:" .) (not $v.plugins.existingConfigMap) (not (hasKey $v.plugins.files (regexReplaceAll ":[^:]*$" . ""))) -}}
{{- fail (printf "scheduler.plugins.load names %q, but scheduler.plugins.files has no such file" .) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "elect" $elect "name" $name "namespace" $namespace) -}}
{{- end -}}
