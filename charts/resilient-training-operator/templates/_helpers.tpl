{{- define "rtj.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "rtj.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "rtj.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "rtj.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "rtj.selectorLabels" -}}
app.kubernetes.io/name: {{ include "rtj.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rtj.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "rtj.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "rtj.serviceAccountName" -}}
{{- default (include "rtj.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "rtj.masterKeyName" -}}
{{- default (printf "%s-master-key" (include "rtj.fullname" .)) .Values.masterKey.existingSecret }}
{{- end }}

{{/* One process serves both. */}}
{{- define "rtj.probesPort" -}}
{{- if eq (int .Values.probes.port) (int .Values.metrics.port) }}
{{- fail (printf "probes.port and metrics.port are both %d: write two different ports" (int .Values.probes.port)) }}
{{- end }}
{{- .Values.probes.port }}
{{- end }}

{{/* Replicas apart, unless the values say otherwise. */}}
{{- define "rtj.affinity" -}}
{{- if .Values.affinity }}
{{- toYaml .Values.affinity }}
{{- else -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "rtj.selectorLabels" . | nindent 12 }}
{{- end }}
{{- end }}
