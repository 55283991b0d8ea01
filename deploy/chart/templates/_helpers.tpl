{{- /* Names are fixed: the registration sorts before hami-webhook, and a cluster has one of us. */ -}}

{{- define "gpu-topology.labels" -}}
{{ include "gpu-topology.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "gpu-topology.selector" -}}
app.kubernetes.io/name: gpu-topology-webhook
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "gpu-topology.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "gpu-topology.port" -}}
{{- if .Values.webhook.hostNetwork.enabled -}}
{{- int .Values.webhook.hostNetwork.port -}}
{{- else -}}
{{- int (dig "server" "port" 8443 .Values.config) -}}
{{- end -}}
{{- end }}

{{- define "gpu-topology.ops-port" -}}
{{- if .Values.webhook.hostNetwork.enabled -}}
{{- int .Values.webhook.hostNetwork.opsPort -}}
{{- else -}}
{{- int (dig "server" "opsPort" 8080 .Values.config) -}}
{{- end -}}
{{- end }}

{{- /* On the network of a node the ports are those of the node, and have one place where they are set. */ -}}
{{- define "gpu-topology.check-ports" -}}
{{- with .Values.webhook.hostNetwork }}
{{- if .enabled }}
{{- range $setting := list "port" "opsPort" }}
{{- if dig "server" $setting "" $.Values.config }}
{{- fail (printf "config.server.%s: webhook.hostNetwork.%s sets it. Leave it out" $setting $setting) }}
{{- end }}
{{- end }}
{{- if eq (int .port) (int .opsPort) }}
{{- fail (printf "webhook.hostNetwork.opsPort: expected another port than webhook.hostNetwork.port, found %d for both" (int .port)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Where agents publish. A Role cannot name the objects of nodes, so what agents may write has a namespace of its own. */ -}}
{{- define "gpu-topology.topologies" -}}
{{- if .Values.agent.enabled -}}
{{- .Values.agent.namespace | default (printf "%s-nodes" .Release.Namespace) -}}
{{- else -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end }}

{{- /* The roles of the chart are for these names. */ -}}
{{- define "gpu-topology.check-names" -}}
{{- range $setting, $name := dict "secret" "gpu-topology-webhook-tls" "service" "gpu-topology-webhook" "webhookConfiguration" "gpu-topology-webhook" }}
{{- $found := dig "certificates" $setting $name $.Values.config }}
{{- if ne $found $name }}
{{- fail (printf "config.certificates.%s: expected %s, the name that the chart uses, found %s. Leave it out" $setting $name $found) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The user names of the schedulers, as JSON: namespace/account stands for a service account. */ -}}
{{- define "gpu-topology.schedulers" -}}
{{- $users := list -}}
{{- range .Values.admission.bindings.schedulers }}
{{- $parts := splitList "/" . }}
{{- $users = append $users (ternary (printf "system:serviceaccount:%s" (join ":" $parts)) . (eq (len $parts) 2)) }}
{{- end }}
{{- toJson ($users | uniq) -}}
{{- end }}

{{- /* The file of the program. As JSON, because YAML of Helm writes 6291456 as 6.291456e+06. */ -}}
{{- define "gpu-topology.config" -}}
{{- include "gpu-topology.check-names" . -}}
{{- include "gpu-topology.check-ports" . -}}
{{- $remap := dict "image" (include "gpu-topology.image" .) "imagePullPolicy" .Values.image.pullPolicy -}}
{{- $topologies := include "gpu-topology.topologies" . -}}
{{- $found := dig "cluster" "topologyNamespace" "" .Values.config -}}
{{- if and $found (ne $found $topologies) }}
{{- fail (printf "config.cluster.topologyNamespace: expected %s, where agents publish, found %s. Leave it out, or set agent.namespace" $topologies $found) }}
{{- end }}
{{- $cluster := dict "topologyNamespace" $topologies -}}
{{- if dig "binding" "schedulers" "" .Values.config }}
{{- fail "config.binding.schedulers: admission.bindings.schedulers sets it. Leave it out" }}
{{- end }}
{{- $binding := dict "schedulers" (include "gpu-topology.schedulers" . | fromJsonArray) -}}
{{- $config := mergeOverwrite (dict "remap" $remap) (deepCopy .Values.config) (dict "cluster" $cluster "binding" $binding) -}}
{{- if .Values.webhook.hostNetwork.enabled }}
{{- $ports := dict "port" (include "gpu-topology.port" . | int) "opsPort" (include "gpu-topology.ops-port" . | int) }}
{{- $config = mergeOverwrite $config (dict "server" $ports) }}
{{- end }}
{{- with .Values.admission.clientCertificate }}
{{- if .enabled }}
{{- if eq (empty .configMap) (empty .secret) }}
{{- fail "admission.clientCertificate: expected the name of a ConfigMap or of a Secret with the authority, found both or none" }}
{{- end }}
{{- if dig "server" "clientAuthority" "" $config }}
{{- fail "config.server.clientAuthority: admission.clientCertificate sets it. Leave it out" }}
{{- end }}
{{- $config = mergeOverwrite $config (dict "server" (dict "clientAuthority" (printf "/etc/gpu-topology-clients/%s" .key))) -}}
{{- end }}
{{- end }}
{{- toPrettyJson $config -}}
{{- end }}

{{- define "gpu-topology.container-security" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end }}

{{- define "gpu-topology.pod-security" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* A Role and its binding in .namespace, or a ClusterRole where that is empty; nothing without rules. */ -}}
{{- define "gpu-topology.role" -}}
{{- if .rules }}
{{- $cluster := not .namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster | ternary "ClusterRole" "Role" }}
metadata:
  name: {{ .name }}
  {{- if not $cluster }}
  namespace: {{ .namespace }}
  {{- end }}
  labels:
    {{- include "gpu-topology.labels" . | nindent 4 }}
rules:
{{ toYaml .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster | ternary "ClusterRoleBinding" "RoleBinding" }}
metadata:
  name: {{ .name }}
  {{- if not $cluster }}
  namespace: {{ .namespace }}
  {{- end }}
  labels:
    {{- include "gpu-topology.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $cluster | ternary "ClusterRole" "Role" }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
{{- end }}

{{- /* What the programs of files/roles.yaml may do: .program, .account, .component, .name. */ -}}
{{- define "gpu-topology.roles" -}}
{{- $scopes := get (.root.Files.Get "files/roles.yaml" | fromYaml) .program | default dict }}
{{- include "gpu-topology.role" (merge (dict "rules" $scopes.cluster "namespace" "") .) }}
{{- include "gpu-topology.role" (merge (dict "rules" $scopes.ownNamespace "namespace" .root.Release.Namespace) .) }}
{{- include "gpu-topology.role" (merge (dict "rules" $scopes.topologies "namespace" (include "gpu-topology.topologies" .root)) .) }}
{{- include "gpu-topology.role" (merge (dict "rules" $scopes.defaultNamespace "namespace" "default") .) }}
{{- end }}

{{- /* The annotations that only the webhook writes, and the beginnings of some: webhook/model/names.py. */ -}}
{{- define "gpu-topology.outputs" -}}
{{- range $index, $name := list "bandwidth" "injected" "link" "nccl-nvls" "nccl-p2p-level" "node-topology" "numa" "ring-order" "satisfied" "visible-uuids" }}
{{- if $index }}, {{ end }}'gpu.topology/{{ $name }}'
{{- end }}
{{- end }}

{{- /* Whether "key" is one of them. Most keys are not ours, and only the first question is asked about those. */ -}}
{{- define "gpu-topology.is-output" -}}
key.startsWith('gpu.topology/') && (key in [{{ include "gpu-topology.outputs" . }}]
|| key.startsWith('gpu.topology/cuda-visible-devices.') || key.startsWith('gpu.topology/nccl-env.'))
{{- end }}

{{- /* What the schedulers and device plugins of HAMi, Volcano and Koordinator write about what they gave to a pod. */ -}}
{{- define "gpu-topology.allocations" -}}
{{- range $index, $name := list "hami.io/bind-phase" "hami.io/bind-time" "hami.io/vgpu-devices-allocated" "hami.io/vgpu-devices-to-allocate" "hami.io/vgpu-mig-allocations" "hami.io/vgpu-node" "hami.io/vgpu-time" "scheduling.koordinator.sh/device-allocated" "volcano.sh/bind-phase" "volcano.sh/bind-time" "volcano.sh/devices-to-allocate" "volcano.sh/vgpu-ids-new" "volcano.sh/vgpu-node" "volcano.sh/vgpu-time" }}
{{- if $index }}, {{ end }}'{{ $name }}'
{{- end }}
{{- end }}
