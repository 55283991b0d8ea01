{{- /* What the names of the objects in our namespace begin with. Names that the cluster has once are fixed: the
       registration sorts before hami-webhook, and a cluster has one of us. So are those that the programs look for: the
       Secret of the certificates, and Leases. */ -}}
{{- define "gpu-topology.fullname" -}}
{{- $name := "gpu-topology" -}}
{{- with .Values.nameOverride -}}
{{- $name = contains . $.Release.Name | ternary $.Release.Name (printf "%s-%s" $.Release.Name .) -}}
{{- end -}}
{{- .Values.fullnameOverride | default $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- /* The Service, the Deployment and what else belongs to the pods that answer reviews. */ -}}
{{- define "gpu-topology.webhook-name" -}}
{{- include "gpu-topology.fullname" . }}-webhook
{{- end }}

{{- /* "true" or empty. */ -}}
{{- define "gpu-topology.has-agent" -}}
{{- if .Values.agent.enabled }}true{{ end -}}
{{- end }}
{{- define "gpu-topology.has-planner" -}}
{{- if ne (include "gpu-topology.placement" .) "off" }}true{{ end -}}
{{- end }}

{{- /* The service account of .program: webhook, place or agent. Roles and policies are for it. */ -}}
{{- define "gpu-topology.account" -}}
{{- $values := get .root.Values (eq .program "place" | ternary "placement" .program) -}}
{{- $values.serviceAccount.name | default (printf "%s-%s" (include "gpu-topology.fullname" .root) .program) -}}
{{- end }}

{{- /* Of two programs with one account each could do what the other may, and no policy would let either do its work. */ -}}
{{- define "gpu-topology.check-accounts" -}}
{{- $programs := list -}}
{{- range $program := list "webhook" "place" "agent" }}
{{- $programs = append $programs (include "gpu-topology.account" (dict "root" $ "program" $program)) }}
{{- end }}
{{- if or (ne (len (uniq $programs)) 3) (has "default" $programs) }}
{{- fail (printf "serviceAccount.name: expected an account for each of webhook, placement and agent, and not the account default, found %s" (join ", " $programs)) }}
{{- end }}
{{- end }}

{{- define "gpu-topology.service-account" -}}
{{- $values := get .root.Values (eq .program "place" | ternary "placement" .program) -}}
{{- if $values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "gpu-topology.account" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "gpu-topology.labels" . | nindent 4 }}
  {{- with $values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end }}

{{- /* Of the object and, for pods and objects of monitoring, .more; ours come before them. */ -}}
{{- define "gpu-topology.labels" -}}
{{- with omit (mergeOverwrite dict .root.Values.commonLabels (.more | default dict)) "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "hami.io/webhook" }}
{{- toYaml . }}
{{ end -}}
{{ include "gpu-topology.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "gpu-topology.selector" -}}
app.kubernetes.io/name: gpu-topology-webhook
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "gpu-topology.image" -}}
{{- $repository := include "gpu-topology.at-registry" (dict "root" . "repository" .Values.image.repository) -}}
{{- with .Values.image -}}
{{- if .digest }}{{ $repository }}@{{ .digest }}{{ else }}{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{- /* .repository at the registry of all charts, if there is one. The first part of a name is a registry if it could be
       the name of a host. */ -}}
{{- define "gpu-topology.at-registry" -}}
{{- if .root.Values.global.imageRegistry -}}
{{- .root.Values.global.imageRegistry | trimSuffix "/" }}/{{ regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" .repository "" -}}
{{- else -}}
{{- .repository -}}
{{- end -}}
{{- end }}

{{- /* Secrets for pulling, those of all charts among them: a name alone, or {name: NAME}. */ -}}
{{- define "gpu-topology.pull-secrets" -}}
{{- $secrets := list -}}
{{- range concat (.Values.global.imagePullSecrets | default list) .Values.imagePullSecrets }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with uniq $secrets -}}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Of the pods of .component: .own, or what stands there for all. One without a selector counts our pods. */ -}}
{{- define "gpu-topology.spread" -}}
{{- $selector := dict "matchLabels" (include "gpu-topology.selector" . | fromYaml) }}
{{- range .constraints }}
- {{ hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" $selector) | toYaml | nindent 2 | trim }}
{{- end }}
{{- end }}

{{- define "gpu-topology.budget" -}}
{{- if .values.enabled -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "gpu-topology.labels" . | nindent 4 }}
spec:
  {{- if eq (toString .values.minAvailable) "" }}
  maxUnavailable: {{ .values.maxUnavailable }}
  {{- else }}
  minAvailable: {{ .values.minAvailable }}
  {{- end }}
  # A pod that never became ready does no work; it must not hold up the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "gpu-topology.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- /* The image in pods. The configuration file has the last word. A digest for one image alone is refused: the other
       one, which runs in every injected pod, would no longer be what was checked. */ -}}
{{- define "gpu-topology.remap-image" -}}
{{- $repository := .Values.remapImage.repository | default (regexReplaceAll "[^/]+$" .Values.image.repository "gpu-topology-remap") -}}
{{- $repository = include "gpu-topology.at-registry" (dict "root" . "repository" $repository) -}}
{{- if dig "remap" "image" "" .Values.config -}}
{{- .Values.config.remap.image -}}
{{- else if .Values.remapImage.digest -}}
{{- $repository }}@{{ .Values.remapImage.digest -}}
{{- else if and .Values.image.digest (not .Values.remapImage.tag) -}}
{{- fail "remapImage.digest: expected the digest of gpu-topology-remap, because image.digest is set, found none. Set it, or remapImage.tag, or put the image of the webhook into config.remap.image" -}}
{{- else -}}
{{- $repository }}:{{ .Values.remapImage.tag | default .Values.image.tag | default .Chart.AppVersion -}}
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

{{- define "gpu-topology.certificate-names" -}}
{{- dict "secret" "gpu-topology-webhook-tls" "service" (include "gpu-topology.webhook-name" .) "webhookConfiguration" "gpu-topology-webhook" | toJson -}}
{{- end }}

{{- /* The roles of the chart are for these names. */ -}}
{{- define "gpu-topology.check-names" -}}
{{- range $setting, $name := include "gpu-topology.certificate-names" . | fromJson }}
{{- $found := dig "certificates" $setting $name $.Values.config }}
{{- if ne $found $name }}
{{- fail (printf "config.certificates.%s: expected %s, the name that the chart uses, found %s. Leave it out" $setting $name $found) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* ValidatingAdmissionPolicies, authorizer and request.namespace in them: "true" from Kubernetes 1.30 on, else empty. */ -}}
{{- define "gpu-topology.has-policies" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}true{{ end -}}
{{- end }}

{{- /* off, observe, on-request or on. YAML takes on and off for true and false. */ -}}
{{- define "gpu-topology.placement" -}}
{{- $mode := .Values.placement.mode -}}
{{- if kindIs "bool" $mode }}{{ $mode | ternary "on" "off" }}
{{- else if $mode }}{{ $mode }}
{{- else if include "gpu-topology.has-policies" . }}on-request
{{- else }}observe
{{- end -}}
{{- end }}

{{- /* Whether pods wait for the planner: "true" or empty. */ -}}
{{- define "gpu-topology.holds-pods" -}}
{{- if has (include "gpu-topology.placement" .) (list "on-request" "on") }}true{{ end -}}
{{- end }}

{{- define "gpu-topology.check-placement" -}}
{{- if and (include "gpu-topology.holds-pods" .) (not (include "gpu-topology.has-policies" .)) }}
{{- fail (printf "placement.mode: expected off or observe, because the others need Kubernetes 1.30, where an admission policy can limit what the planner changes on pods; found Kubernetes %s. Upgrade the cluster, or leave the mode empty" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if hasKey (dig "placement" dict .Values.config) "mode" }}
{{- fail "config.placement.mode: placement.mode sets it. Leave it out" }}
{{- end }}
{{- with .Values.placement.extender }}
{{- if .enabled }}
{{- if eq (include "gpu-topology.placement" $) "off" }}
{{- fail "placement.extender.enabled: expected placement.mode observe, on-request or on, because the planner is the extender, found off" }}
{{- end }}
{{- if or (empty .tlsSecret) (empty .clientAuthoritySecret) }}
{{- fail "placement.extender: expected tlsSecret and clientAuthoritySecret, because schedulers and the extender show each other certificates, found one or none" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether pods may wait behind our gate when the release is removed: "true" or empty. They may although the mode is
       another one by now, so a Lease of a planner that the cluster has is a reason too. A release that never had one is
       removed without a Job, for which no node may have the image. */ -}}
{{- define "gpu-topology.may-hold-pods" -}}
{{- $lease := lookup "coordination.k8s.io/v1" "Lease" .Release.Namespace "gpu-topology-place" -}}
{{- if and (include "gpu-topology.has-policies" .) (or $lease (include "gpu-topology.holds-pods" .)) }}true{{ end -}}
{{- end }}

{{- /* Whether there is an account of the planner: "true" or empty. The removal of the release needs it too. */ -}}
{{- define "gpu-topology.has-planner-account" -}}
{{- if or (include "gpu-topology.has-planner" .) (include "gpu-topology.may-hold-pods" .) }}true{{ end -}}
{{- end }}

{{- /* The user names of the schedulers, as JSON: namespace/account stands for a service account. */ -}}
{{- define "gpu-topology.schedulers" -}}
{{- $users := list -}}
{{- $named := .Values.admission.bindings.schedulers -}}
{{- if .Values.claims.enabled }}
{{- $named = concat $named .Values.claims.schedulers }}
{{- end }}
{{- range $named }}
{{- $parts := splitList "/" . }}
{{- $users = append $users (ternary (printf "system:serviceaccount:%s" (join ":" $parts)) . (eq (len $parts) 2)) }}
{{- end }}
{{- toJson ($users | uniq) -}}
{{- end }}

{{- /* The file of the program. As JSON, because YAML of Helm writes 6291456 as 6.291456e+06. */ -}}
{{- define "gpu-topology.config" -}}
{{- include "gpu-topology.check-names" . -}}
{{- include "gpu-topology.check-accounts" . -}}
{{- include "gpu-topology.check-ports" . -}}
{{- include "gpu-topology.check-placement" . -}}
{{- $remap := dict "imagePullPolicy" .Values.image.pullPolicy -}}
{{- $remapImage := dict "image" (include "gpu-topology.remap-image" .) -}}
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
{{- $placement := dict "mode" (include "gpu-topology.placement" .) -}}
{{- if hasKey (dig "claims" dict .Values.config) "enabled" }}
{{- fail "config.claims.enabled: claims.enabled sets it, with the roles and schedulers that it needs. Leave it out" }}
{{- end }}
{{- $claims := dict "enabled" .Values.claims.enabled -}}
{{- $config := mergeOverwrite (dict "remap" $remap) (deepCopy .Values.config) (dict "remap" $remapImage "cluster" $cluster "binding" $binding "placement" $placement "claims" $claims) -}}
{{- $certificates := dict }}
{{- $unset := dict "secret" "gpu-topology-webhook-tls" "service" "gpu-topology-webhook" "webhookConfiguration" "gpu-topology-webhook" }}
{{- range $setting, $name := include "gpu-topology.certificate-names" . | fromJson }}
{{- if ne $name (get $unset $setting) }}
{{- $certificates = set $certificates $setting $name }}
{{- end }}
{{- end }}
{{- if and $certificates (eq .Values.certificates.source "managed") }}
{{- $config = mergeOverwrite $config (dict "certificates" $certificates) }}
{{- end }}
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

{{- /* OpenShift gives each namespace a range of users and groups, and refuses others; "true" or empty. */ -}}
{{- define "gpu-topology.is-openshift" -}}
{{- $enabled := .Values.openshift.enabled -}}
{{- if eq (toString $enabled) "auto" }}{{ $enabled = .Capabilities.APIVersions.Has "security.openshift.io/v1" }}{{ end -}}
{{- if $enabled }}true{{ end -}}
{{- end }}

{{- define "gpu-topology.pod-security" -}}
runAsNonRoot: true
{{- if not (include "gpu-topology.is-openshift" .) }}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* A Role and its binding in .namespace, or a ClusterRole where that is empty; nothing without rules. */ -}}
{{- define "gpu-topology.role" -}}
{{- if .rules }}
{{- $cluster := not .namespace }}
{{- $name := eq .namespace .root.Release.Namespace | ternary (regexReplaceAll "^gpu-topology" .name (include "gpu-topology.fullname" .root)) .name }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster | ternary "ClusterRole" "Role" }}
metadata:
  name: {{ $name }}
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
  name: {{ $name }}
  {{- if not $cluster }}
  namespace: {{ .namespace }}
  {{- end }}
  labels:
    {{- include "gpu-topology.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $cluster | ternary "ClusterRole" "Role" }}
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
{{- end }}

{{- /* .rules without patches of pods where no policy can limit them: there nothing needs them, because no pod waits. */ -}}
{{- define "gpu-topology.limited-rules" -}}
{{- $rules := list -}}
{{- range .rules }}
{{- $verbs := .verbs }}
{{- if and (not (include "gpu-topology.has-policies" $.root)) (hasPrefix "pods" (first .resources)) }}
{{- $verbs = without .verbs "patch" }}
{{- end }}
{{- if $verbs }}
{{- $rules = append $rules (merge (dict "verbs" $verbs) .) }}
{{- end }}
{{- end }}
{{- toJson $rules -}}
{{- end }}

{{- /* What the programs of files/roles.yaml may do: .program, .account, .component, .name. */ -}}
{{- define "gpu-topology.roles" -}}
{{- $scopes := get (.root.Files.Get "files/roles.yaml" | fromYaml) .program | default dict }}
{{- $cluster := include "gpu-topology.limited-rules" (dict "root" .root "rules" $scopes.cluster) | fromJsonArray }}
{{- include "gpu-topology.role" (merge (dict "rules" $cluster "namespace" "") .) }}
{{- $own := .root.Release.Namespace }}
{{- $topologies := include "gpu-topology.topologies" .root }}
{{- $rules := dict $topologies $scopes.topologies }}
{{- $rules = set $rules $own (concat ($scopes.ownNamespace | default list) (get $rules $own | default list)) }}
{{- range $namespace := list $own $topologies | uniq }}
{{- include "gpu-topology.role" (merge (dict "rules" (get $rules $namespace) "namespace" $namespace) $) }}
{{- end }}
{{- include "gpu-topology.role" (merge (dict "rules" $scopes.defaultNamespace "namespace" "default") .) }}
{{- end }}

{{- /* The annotations that only the webhook and the planner write, and the beginnings of some: webhook/model/names.py. */ -}}
{{- define "gpu-topology.outputs" -}}
{{- range $index, $name := list "bandwidth" "claimed-gpus" "injected" "link" "nccl-nvls" "nccl-p2p-level" "node-topology" "numa" "placed" "ring-order" "satisfied" "visible-uuids" }}
{{- if $index }}, {{ end }}'gpu.topology/{{ $name }}'
{{- end }}
{{- end }}

{{- /* Whether the request comes from the account of one of .programs of ours. */ -}}
{{- define "gpu-topology.is-by" -}}
{{- $accounts := list -}}
{{- range $program := .programs }}
{{- $accounts = append $accounts (include "gpu-topology.account" (dict "root" $.root "program" $program)) }}
{{- end -}}
request.userInfo.username in [
{{- range $index, $account := $accounts }}
{{- if $index }}, {{ end }}'system:serviceaccount:{{ $.root.Release.Namespace }}:{{ $account }}'
{{- end }}]
{{- end }}

{{- /* Variables of policies about pods that are changed: what may differ, and what has to be equal. A pod is a map here,
       which its type does not say. Maps in which loops take long are compared as a whole, see gpu-topology-outputs. */ -}}
{{- define "gpu-topology.pod-variables" -}}
- name: labels
  expression: "has(object.metadata.labels) ? object.metadata.labels : {}"
- name: oldLabels
  expression: "has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"
- name: annotations
  expression: "has(object.metadata.annotations) ? object.metadata.annotations : {}"
- name: oldAnnotations
  expression: "has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"
- name: gates
  expression: "has(object.spec.schedulingGates) ? object.spec.schedulingGates : []"
- name: oldGates
  expression: "has(oldObject.spec.schedulingGates) ? oldObject.spec.schedulingGates : []"
- name: wasGated
  expression: variables.oldGates.exists(gate, gate.name == 'gpu.topology/place')
- name: isOpened
  expression: >-
    variables.wasGated && variables.gates == variables.oldGates.filter(gate, gate.name != 'gpu.topology/place')
- name: spec
  expression: dyn(object.spec)
- name: oldSpec
  expression: dyn(oldObject.spec)
{{- end }}

{{- /* Whether the maps .one and .other, and so their keys, are equal but for .except, a list of keys in quotes. */ -}}
{{- define "gpu-topology.equal-but-for" -}}
{{- $but := .except | join ", " -}}
({{ .one }}.all(key, key in [{{ $but }}] || {{ .one }}[?key] == {{ .other }}[?key])
&& {{ .other }}.all(key, key in [{{ $but }}] || key in {{ .one }}))
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
