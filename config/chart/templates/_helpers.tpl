{{- /* The roles, which values.yaml has below workloads. */}}
{{- define "sluice.roles" -}}
crd-guard delivery feature-webhook features resolution resolver-bundles resolver-cluster resolver-dir resolver-git resolver-http resolver-hub
{{- end }}

{{- /* The names of the resolvers, separated by spaces, and their accounts. */}}
{{- define "sluice.resolvers" }}
{{- $names := list }}
{{- range splitList " " (include "sluice.roles" .) }}
{{- if hasPrefix "resolver-" . }}{{ $names = append $names (trimPrefix "resolver-" .) }}{{ end }}
{{- end }}
{{- join " " $names }}
{{- end }}

{{- /* Whether a role is installed: "true", or nothing. */}}
{{- define "sluice.has" }}
{{- if or (has "all" .root.Values.roles) (has .role .root.Values.roles) }}true{{ end }}
{{- end }}

{{- define "sluice.labels" -}}
labels: {app.kubernetes.io/part-of: sluice}
{{- end }}

{{- /* A binding of a role to an account of Sluice: kind, name, roleKind, role, accounts; namespace for a RoleBinding. */}}
{{- define "sluice.binding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  {{- include "sluice.labels" . | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .roleKind }}, name: {{ .role }}}
{{- if .accounts }}
subjects:
  {{- range .accounts }}
  - {kind: ServiceAccount, name: {{ . }}, namespace: {{ $.root.Release.Namespace }}}
  {{- end }}
{{- else }}
subjects: []
{{- end }}
{{- end }}

{{- /* A ClusterRole or Role of the same name bound to one account of Sluice: root, kind, role, account. */}}
{{- define "sluice.bind" }}
{{- $namespace := ternary .root.Release.Namespace "" (eq .kind "Role") }}
{{- include "sluice.binding" (dict "root" .root "kind" (printf "%sBinding" .kind) "roleKind" .kind "name" (default .role .name) "role" .role "namespace" (default $namespace .namespace) "accounts" (list .account)) }}
{{- end }}

{{- /*
What runs a role: a ServiceAccount, a Deployment, a PodDisruptionBudget where there are replicas, a NetworkPolicy, and a Service where
the API server calls the role. Takes root and role, and these where the role has them: args, mounts and volumes (lists), cache (a
volume for files), wide (it reads the Secrets of all namespaces), port (name and number of the webhook), configNamespace and defaultsNamespace.
*/}}
{{- define "sluice.workload" }}
{{- $root := .root }}
{{- $name := printf "sluice-%s" .role }}
{{- $namespace := .root.Release.Namespace }}
{{- $settings := index .root.Values.workloads .role }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  {{- include "sluice.labels" . | nindent 2 }}
{{- with .port }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  {{- include "sluice.labels" . | nindent 2 }}
spec:
  selector: {app.kubernetes.io/component: {{ $.role }}}
  ports:
    - {name: {{ .name }}, port: 443, targetPort: {{ .name }}}
{{- end }}
{{- if gt (int $settings.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  {{- include "sluice.labels" . | nindent 2 }}
spec:
  minAvailable: 1
  selector:
    matchLabels: {app.kubernetes.io/component: {{ .role }}}
{{- end }}
{{- if .root.Values.networkPolicies }}
---
# Nobody reaches more of the Pods than metrics and, where there is one, the webhook. What they reach is not bounded here: a
# resolver's own rules do that.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  {{- include "sluice.labels" . | nindent 2 }}
spec:
  podSelector:
    matchLabels: {app.kubernetes.io/component: {{ .role }}}
  policyTypes: [Ingress]
  ingress:
    - ports:
        - {port: http, protocol: TCP}
        {{- with .port }}
        - {port: {{ .name }}, protocol: TCP}
        {{- end }}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels: {app.kubernetes.io/part-of: sluice, app.kubernetes.io/component: {{ .role }}}
  {{- if .wide }}
  # sluice doctor compares it with who may read Secrets.
  annotations: {sluice.dev/wide-credentials: "true"}
  {{- end }}
spec:
  replicas: {{ int $settings.replicas }}
  selector:
    matchLabels: {app.kubernetes.io/component: {{ .role }}}
  {{- if .port }}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  {{- end }}
  template:
    metadata:
      labels: {app.kubernetes.io/part-of: sluice, app.kubernetes.io/component: {{ .role }}}
    spec:
      serviceAccountName: {{ $name }}
      {{- with default $root.Values.priorityClassName $settings.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - {name: {{ . }}}
        {{- end }}
      {{- end }}
      {{- range $key := list "nodeSelector" "tolerations" "affinity" }}
      {{- with default (index $root.Values $key) (index $settings $key) }}
      {{ $key }}:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      terminationGracePeriodSeconds: 30
      securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
      {{- if gt (int $settings.replicas) 1 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: {app.kubernetes.io/component: {{ .role }}}}
      {{- end }}
      containers:
        - name: sluice
          image: {{ quote $root.Values.image }}
          {{- with $root.Values.imagePullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
          args:
            - serve
            - --roles={{ .role }}
            - --namespace={{ $namespace }}
            - --config-namespace={{ default $namespace .configNamespace }}
            {{- with .defaultsNamespace }}
            - --defaults-namespace={{ . }}
            {{- end }}
            {{- range .args }}
            - {{ quote . }}
            {{- end }}
            {{- with $root.Values.log.level }}
            - --log-level={{ . }}
            {{- end }}
            {{- with $root.Values.log.format }}
            - --log-format={{ . }}
            {{- end }}
            {{- if $root.Values.debug }}
            - --debug
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}
            {{- if .cache }}
            - {name: TMPDIR, value: /var/cache/sluice}
            {{- end }}
          ports:
            - {name: http, containerPort: 8080}
            {{- with .port }}
            - {name: {{ .name }}, containerPort: {{ .number }}}
            {{- end }}
          livenessProbe: {httpGet: {path: /healthz, port: http}}
          {{- if .port }}
          readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 2}
          # Calls still come until everybody knows that this replica goes.
          lifecycle: {preStop: {sleep: {seconds: 5}}}
          {{- else }}
          readinessProbe: {httpGet: {path: /readyz, port: http}}
          {{- end }}
          resources:
            {{- toYaml $settings.resources | nindent 12 }}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          {{- if or .cache .mounts }}
          volumeMounts:
            {{- if .cache }}
            - {name: cache, mountPath: /var/cache/sluice}
            {{- end }}
            {{- range .mounts }}
            - {{ toJson . }}
            {{- end }}
          {{- end }}
      {{- if or .cache .volumes }}
      volumes:
        {{- if .cache }}
        - name: cache
          {{- toYaml $root.Values.cacheVolume | nindent 10 }}
        {{- end }}
        {{- range .volumes }}
        - {{ toJson . }}
        {{- end }}
      {{- end }}
{{- end }}

{{- /* Whether a role that takes or makes ResolutionRequests is installed. */}}
{{- define "sluice.requests" }}
{{- range .Values.roles }}
{{- if or (has . (list "all" "resolution" "delivery")) (hasPrefix "resolver-" .) }}true{{ end }}
{{- end }}
{{- end }}
