{{/* Definitions that templates share. Names and the two namespaces are fixed: a cluster has one Sluice. */}}

{{- define "sluice.labels" -}}
app.kubernetes.io/part-of: sluice
{{- end }}

{{- define "sluice.image" -}}
{{ .root.Values.images.repository }}/{{ .name }}:{{ .root.Values.images.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "sluice.baseURL" -}}
{{ ternary "https" "http" .Values.tls.enabled }}://{{ .Values.host }}
{{- end }}

{{- define "sluice.entryPoint" -}}
{{ ternary .Values.ingress.entryPoints.https .Values.ingress.entryPoints.http .Values.tls.enabled }}
{{- end }}

{{/* The kinds of apps' routes and gates, current and former, by API group. */}}
{{- define "sluice.routeKinds" -}}
{{- $kinds := dict
  "traefik" (dict "traefik.io" (list "ingressroutes"))
  "gateway-traefik" (dict "gateway.networking.k8s.io" (list "httproutes"))
  "gateway-envoy" (dict "gateway.networking.k8s.io" (list "httproutes")) }}
{{- $all := deepCopy (index $kinds .Values.ingress.routes) }}
{{- with .Values.ingress.formerRoutes }}{{ $all = merge $all (index $kinds .) }}{{ end }}
{{- toYaml $all }}
{{- end }}

{{- define "sluice.gateKinds" -}}
{{- $kinds := dict
  "traefik" (dict "traefik.io" (list "middlewares"))
  "gateway-traefik" (dict "traefik.io" (list "middlewares"))
  "gateway-envoy" (dict "gateway.envoyproxy.io" (list "backends" "securitypolicies")) }}
{{- $all := deepCopy (index $kinds .Values.ingress.routes) }}
{{- with .Values.ingress.formerRoutes }}{{ $all = merge $all (index $kinds .) }}{{ end }}
{{- toYaml $all }}
{{- end }}

{{/* Address of the ingress inside the cluster, with one IP address for each pod. */}}
{{- define "sluice.ingressURL" -}}
{{- if .Values.ingress.url }}{{ .Values.ingress.url }}
{{- else if .Values.tls.enabled }}https://sluice-ingress.{{ .Values.ingress.namespace }}.svc.cluster.local:{{ .Values.ingress.ports.https }}
{{- else }}http://sluice-ingress.{{ .Values.ingress.namespace }}.svc.cluster.local:{{ .Values.ingress.ports.http }}
{{- end }}
{{- end }}

{{/* Proxies that functions trust for client addresses: the ingress, the pods between it and the
functions, the sidecar of a Knative pod, and those in the values. */}}
{{- define "sluice.trustedProxies" -}}
{{- if not .Values.ingress.url }}
- sluice-ingress.{{ .Values.ingress.namespace }}.svc.cluster.local
{{- end }}
{{- if ne .Values.runtime "plain" }}
{{- range $i, $p := .Values.proxies }}
- sluice-proxies-{{ $i }}.{{ $p.namespace }}.svc.cluster.local
{{- end }}
{{- end }}
{{- if eq .Values.runtime "knative" }}
- 127.0.0.0/8
- ::1/128
{{- end }}
{{- range .Values.trustedProxies }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* URL at which a function receives notifications. */}}
{{- define "sluice.url" -}}
{{- if eq .root.Values.runtime "openfaas" }}http://gateway.openfaas.svc.cluster.local:8080/function/{{ .name }}
{{- else }}http://{{ .name }}.sluice-system.svc.cluster.local{{ ternary "" ":8080" (eq .root.Values.runtime "knative") }}
{{- end }}
{{- end }}

{{/* Security context of every container. */}}
{{- define "sluice.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sluice.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Headers of each export of spans, which may be secret. */}}
{{- define "sluice.tracingHeaders" -}}
{{- with .Values.tracing }}
{{- if and .endpoint .headersSecret.name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef: {name: {{ .headersSecret.name }}, key: {{ .headersSecret.key }}}
{{- end }}
{{- end }}
{{- end }}

{{/* Port of the collector: its own, or the scheme's default. */}}
{{- define "sluice.collector" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
{{- $host := (urlParse .endpoint).host }}
- ports:
    - port: {{ regexFind ":[0-9]+$" $host | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" .endpoint)) }}
  {{- with .namespace }}
  to: {{- include "sluice.namespace" . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* DNS server of the pods. */}}
{{- define "sluice.dns" -}}
- to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ .Values.networkPolicies.dns.namespace }}
{{- range .Values.networkPolicies.dns.cidrs }}
    - ipBlock:
        cidr: {{ . }}
{{- end }}
  ports:
{{- range .Values.networkPolicies.dns.ports }}
    - {port: {{ . }}, protocol: UDP}
    - {port: {{ . }}, protocol: TCP}
{{- end }}
{{- end }}

{{/* Rules for all pods of a namespace. */}}
{{- define "sluice.namespace" -}}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ . }}
{{- end }}

{{/* Soft limit of the Go runtime: 90% of the container's memory limit, in bytes. The rest is for
memory outside the heap. It is empty if there is no limit. */}}
{{- define "sluice.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" . | toString -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $unit := regexFind "[A-Za-z]*$" $limit -}}
{{- if and (regexMatch "^[0-9.]+[A-Za-z]*$" $limit) (hasKey $units $unit) -}}
{{- printf "%.0f" (mulf (regexFind "^[0-9.]+" $limit | float64) (index $units $unit) 0.9) -}}
{{- end -}}
{{- end }}
