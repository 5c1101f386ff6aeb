{{/*
Adds the chart's defaults to values that lack them. Each template begins with it: `helm upgrade --reuse-values` takes the
defaults of the former release, which lack whatever came later. Settings that moved to `advanced` are read by their former
names, too.
*/}}
{{- define "cronhpa.complete" -}}
{{- $defaults := .Files.Get "files/defaults.json" | fromJson -}}
{{- include "cronhpa.addDefaults" (list .Values $defaults) -}}
{{- $former := dict "daskInsecure" .Values.daskInsecure "daskScheduler" .Values.daskScheduler "daskTlsSecret" .Values.daskTlsSecret "forecastWorkers" .Values.forecastWorkers "learningSharePercent" .Values.learningSharePercent "shardSelector" .Values.shardSelector "pageInsecure" .Values.page.insecure "proxyClientCa" .Values.page.proxy.clientCa -}}
{{- $advanced := .Values.advanced -}}
{{- /*
What is set under the present name wins: former values also hold the former defaults. A default of null differs from false
and "", so that these can be set, too.
*/ -}}
{{- range $name, $value := $former -}}
{{- if and (not (kindIs "invalid" $value)) (eq (toString (get $advanced $name)) (toString (get $defaults.advanced $name))) -}}
{{- $_ := set $advanced $name $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of maps whose keys are the user's, such as resources, a missing key stays away: null removes it. */}}
{{- define "cronhpa.addDefaults" -}}
{{- $values := first . -}}
{{- range $name, $default := last . -}}
{{- if not (hasKey $values $name) -}}
{{- $_ := set $values $name $default -}}
{{- else if and (kindIs "map" $default) (kindIs "map" (get $values $name)) (not (has $name (list "labels" "podSecurityContext" "resources"))) -}}
{{- include "cronhpa.addDefaults" (list (get $values $name) $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The release's full name: the release's name alone if it contains cronhpa. */}}
{{- define "cronhpa.fullname" -}}
{{- $name := .Values.nameOverride | default "cronhpa" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/*
The image. A digest names one image for ever; a registry can move a tag. A released chart has its own image by digest in an
annotation, not in a value: `helm upgrade --reuse-values` would keep the former release's.
*/}}
{{- define "cronhpa.image" -}}
{{- $released := index .Chart.Annotations "cronhpa.io/image" | default "" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else if .tag -}}
{{ .repository }}:{{ .tag }}
{{- else if hasPrefix (printf "%s@" .repository) $released -}}
{{ $released }}
{{- else -}}
{{ .repository }}:{{ $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels that select this release's pods. */}}
{{- define "cronhpa.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "cronhpa" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "cronhpa.labels" -}}
{{ include "cronhpa.labelsWith" (list . dict) }}
{{- end -}}

{{/* The labels of an object, with those that its values add. */}}
{{- define "cronhpa.labelsWith" -}}
{{- $root := first . -}}
{{- $own := dict "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) -}}
{{ include "cronhpa.joinedLabels" (list $root $own $root.Values.commonLabels (last .)) }}
{{- end -}}

{{/* Labels as one map, the later of two of a name: two would be no YAML. Those by which pods are selected hold. */}}
{{- define "cronhpa.joinedLabels" -}}
{{- $labels := dict -}}
{{- range append (rest .) (include "cronhpa.selector" (first .) | fromYaml) -}}
{{- $labels = mergeOverwrite $labels (. | default dict) -}}
{{- end -}}
{{ toYaml $labels }}
{{- end -}}

{{- define "cronhpa.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "cronhpa.fullname" .) "default") }}
{{- end -}}

{{/* The port of a URL, else the port of its scheme. */}}
{{- define "cronhpa.portOf" -}}
{{- $named := urlParse . | dig "host" "" | regexFind ":[0-9]+$" | trimPrefix ":" -}}
{{- $named | default (hasPrefix "https" . | ternary "443" "80") -}}
{{- end -}}

{{/* The ports of a PostgreSQL's URL, separated by spaces: those of ?port=, else one of each host. */}}
{{- define "cronhpa.portsOfPostgres" -}}
{{- $stated := regexFind "[?&]port=[^&]+" . | regexFind "[^=]+$" | replace "%2C" "," | replace "%2c" "," -}}
{{- $hosts := regexFind "//[^/?]*" . | regexFind "[^@/]*$" -}}
{{- $ports := list -}}
{{- range splitList "," ($stated | default $hosts) -}}
{{- $ports = append $ports (regexFind "(^|:)[0-9]+$" . | trimPrefix ":" | default "5432") -}}
{{- end -}}
{{- uniq $ports | join " " -}}
{{- end -}}

{{/* The names of the operator's pods, separated by commas. At least one: RBAC takes no names for all pods. */}}
{{- define "cronhpa.podNames" -}}
{{- $names := list -}}
{{- range $number := until (max 1 .Values.replicas | int) -}}
{{- $names = append $names (printf "%s-%d" (include "cronhpa.fullname" $) $number) -}}
{{- end -}}
{{- join ", " $names -}}
{{- end -}}

{{/* The rights to ask who somebody is, and whether they may get an object. They belong to no namespace. */}}
{{- define "cronhpa.reviewRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/* ClusterPlannedEvents, and the labels of namespaces by which they pick them. */}}
{{- define "cronhpa.clusterEventRules" -}}
- apiGroups: [cronhpa.io]
  resources: [clusterplannedevents]
  verbs: [list, watch]
- apiGroups: [cronhpa.io]
  resources: [clusterplannedevents/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end -}}

{{/* All other rights of the operator, for the ClusterRole or for the Role of each namespace. */}}
{{- define "cronhpa.rules" -}}
# The CronHPAs. The operator never writes their spec, nor that of planned events.
- apiGroups: [cronhpa.io]
  resources: [cronhpas]
  verbs: [get, list, watch]
- apiGroups: [cronhpa.io]
  resources: [plannedevents]
  verbs: [list, watch]
- apiGroups: [cronhpa.io]
  resources: [cronhpas/status, plannedevents/status]
  verbs: [patch]
# The targets: seen through a watch, scaled through their scale subresource alone.
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments/scale, replicasets/scale, statefulsets/scale]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [replicationcontrollers]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [replicationcontrollers/scale]
  verbs: [get, patch]
{{- range .Values.scaleTargets }}
- apiGroups: [{{ .apiGroup | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: [list, watch]
- apiGroups: [{{ .apiGroup | quote }}]
  resources: [{{ printf "%s/scale" .resource | quote }}]
  verbs: [get, patch]
{{- end }}
# The target's pods: readiness, start-up time and requests.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# Other autoscalers of the target.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
# Who changes the requests that a utilization is divided by.
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list]
# Metrics. The names of custom and external metrics are resources here, so they cannot be listed one by one.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
- apiGroups: [custom.metrics.k8s.io]
  resources: ["*"]
  verbs: [get]
- apiGroups: [external.metrics.k8s.io]
  resources: ["*"]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* Room for the pods of coming rises, beside the objects that ask for it. The role owns it, so that both go together. */}}
{{- define "cronhpa.bufferRules" -}}
- apiGroups: [autoscaling.x-k8s.io]
  resources: [capacitybuffers]
  verbs: [list, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [{{ if .Values.namespaces }}roles{{ else }}clusterroles{{ end }}]
  resourceNames: [{{ include "cronhpa.bufferRole" . }}]
  verbs: [get]
{{- end -}}

{{- define "cronhpa.bufferRole" -}}
{{ include "cronhpa.fullname" . }}-{{ if not .Values.namespaces }}{{ .Release.Namespace }}-{{ end }}buffers
{{- end -}}

{{/* Not empty if the page is served to other machines. */}}
{{- define "cronhpa.servesPage" -}}
{{- if and .Values.page.enabled (or .Values.page.tlsSecret .Values.advanced.pageInsecure) }}true{{ end }}
{{- end }}

{{- /* The PriorityClass of placeholders. It belongs to no namespace, so its name has the release's. */}}
{{- define "cronhpa.placeholderPriorityClass" -}}
{{- .Values.placeholders.priorityClassName | default (printf "%s-%s-placeholder" (include "cronhpa.fullname" .) .Release.Namespace) }}
{{- end -}}
