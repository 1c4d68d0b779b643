{{- /* Refuses values that would not install what they say. Values go into manifests as they are: these checks keep them names. */}}
{{- define "sluice.check" }}
{{- $v := .Values }}
{{- $known := append (splitList " " (include "sluice.roles" .)) "all" }}
{{- if not $v.roles }}{{ fail (printf "no role is named; the roles are %s" (join ", " $known)) }}{{ end }}
{{- range concat $v.roles (keys $v.workloads | sortAlpha) }}
{{- if not (has . $known) }}{{ fail (printf "there is no role %q; the roles are %s" . (join ", " $known)) }}{{ end }}
{{- end }}
{{- range splitList " " (include "sluice.roles" .) }}
{{- if eq (printf "%v" (get $v.workloads . | default dict).replicas) "<nil>" }}{{ fail (printf "workloads.%s.replicas is required" .) }}{{ end }}
{{- end }}
{{- if not $v.image }}{{ fail "image is empty: name the image to install" }}{{ end }}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._:/@-]*$" $v.image) }}{{ fail (printf "%q is no name of an image" $v.image) }}{{ end }}
{{- range list .Release.Namespace $v.besideTekton.namespace $v.besideTekton.resolversNamespace }}
{{- if not (regexMatch "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" .) }}{{ fail (printf "%q is no name of a namespace" .) }}{{ end }}
{{- end }}
{{- range concat $v.imagePullSecrets (list $v.store.credentials $v.priorityClassName) }}
{{- if not (regexMatch "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$" .) }}{{ fail (printf "%q is no name of a Secret or of a priority class" .) }}{{ end }}
{{- end }}
{{- range $v.writers }}
{{- if not (regexMatch "^system:serviceaccount:[a-z0-9.-]+:[a-z0-9.-]+(=([a-z0-9.-]+|[*]))?$" .) }}
{{- fail (printf "%q is no user of the form system:serviceaccount:NAMESPACE:NAME=RESOLVER" .) }}
{{- end }}
{{- if or (hasPrefix (printf "system:serviceaccount:%s:sluice-" $.Release.Namespace) .) (and $v.besideTekton.enabled (hasPrefix (printf "system:serviceaccount:%s:tekton-pipelines-controller" $v.besideTekton.namespace) .)) }}
{{- fail (printf "%s has its rights already" .) }}
{{- end }}
{{- end }}
{{- if not (regexMatch "^[A-Za-z0-9:/_.-]*$" $v.store.repository) }}{{ fail (printf "%q is no repository of the form REGISTRY/PATH" $v.store.repository) }}{{ end }}
{{- if and (not $v.store.repository) (or $v.store.credentials $v.store.plainHTTP) }}
{{- fail "credentials and plain HTTP are for a store, and none is named" }}
{{- end }}
{{- if and $v.besideTekton.enabled (or $v.compress $v.store.repository) }}
{{- fail "beside Tekton there is no place for large content: its ResolutionRequest has no fields for it" }}
{{- end }}
{{- $features := include "sluice.has" (dict "root" . "role" "features") }}
{{- $webhook := include "sluice.has" (dict "root" . "role" "feature-webhook") }}
{{- if and $v.features.settings (not (or $features $webhook)) }}
{{- fail "settings of features are for the roles features and feature-webhook, which are not asked for" }}
{{- end }}
{{- if and $v.features.usage (not (or $features $webhook)) }}
{{- fail "the use of features is counted by the role features, which is not asked for" }}
{{- end }}
{{- range $v.features.settings }}
{{- if not (regexMatch "^[a-z0-9.-]{1,253}/[a-z0-9.-]{1,253}$" .) }}{{ fail (printf "%q is no ConfigMap of the form NAMESPACE/NAME" .) }}{{ end }}
{{- end }}
{{- range $v.features.usage }}
{{- if not (regexMatch "^[a-z0-9-]+([.][a-z0-9.-]*[a-z0-9])?$" .) }}{{ fail (printf "%q is no resource of the form PLURAL.GROUP" .) }}{{ end }}
{{- end }}
{{- range $v.guard.reads }}
{{- if not (regexMatch "^[a-z0-9-]+([.][a-z0-9-]+)+$" .) }}{{ fail (printf "%q is no API group of CRDs, such as example.com" .) }}{{ end }}
{{- end }}
{{- end }}
