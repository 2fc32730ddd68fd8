{{/* What the templates share. Names and the two namespaces are fixed: one cluster has one Sluice. */}}

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

{{/* What apps' routes, and the gates on them, are made of: the kinds of the present routes and
of the former ones, with the API group of each. */}}
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

{{/* Where the ingress takes requests inside the cluster: each of its pods has an address there. */}}
{{- define "sluice.ingressURL" -}}
{{- if .Values.ingress.url }}{{ .Values.ingress.url }}
{{- else if .Values.tls.enabled }}https://sluice-ingress.{{ .Values.ingress.namespace }}.svc.cluster.local:{{ .Values.ingress.ports.https }}
{{- else }}http://sluice-ingress.{{ .Values.ingress.namespace }}.svc.cluster.local:{{ .Values.ingress.ports.http }}
{{- end }}
{{- end }}

{{/* The proxies that functions believe about the addresses of clients: the ingress, the pods
between it and the functions, the sidecar in a pod of Knative's, and those of the values. */}}
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

{{/* Where a function takes what others tell it. */}}
{{- define "sluice.url" -}}
{{- if eq .root.Values.runtime "openfaas" }}http://gateway.openfaas.svc.cluster.local:8080/function/{{ .name }}
{{- else }}http://{{ .name }}.sluice-system.svc.cluster.local{{ ternary "" ":8080" (eq .root.Values.runtime "knative") }}
{{- end }}
{{- end }}

{{/* What every container may not do. */}}
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

{{/* What goes with each export of spans, which may be secret. */}}
{{- define "sluice.tracingHeaders" -}}
{{- with .Values.tracing }}
{{- if and .endpoint .headersSecret.name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef: {name: {{ .headersSecret.name }}, key: {{ .headersSecret.key }}}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the collector of spans is: its own port, or its scheme's. */}}
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

{{/* Where pods ask for names. */}}
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

{{/* One list of rules for one namespace, all pods of it. */}}
{{- define "sluice.namespace" -}}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ . }}
{{- end }}

{{/* The soft limit of the Go runtime: 90% of a container's memory limit, in bytes; the rest is
for memory outside of its heap. It is empty without a limit. */}}
{{- define "sluice.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" . | toString -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $unit := regexFind "[A-Za-z]*$" $limit -}}
{{- if and (regexMatch "^[0-9.]+[A-Za-z]*$" $limit) (hasKey $units $unit) -}}
{{- printf "%.0f" (mulf (regexFind "^[0-9.]+" $limit | float64) (index $units $unit) 0.9) -}}
{{- end -}}
{{- end }}
