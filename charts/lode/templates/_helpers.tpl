{{- define "lode.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* The settings file: the one of the hardware, with the values of `settings` over it. */ -}}
{{- define "lode.settings" -}}
{{- $file := .Files.Get (printf "files/settings/%s.yaml" .Values.hardware) | fromYaml -}}
{{- if ne .Values.kubeletRoot "/var/lib/kubelet" -}}
{{- $file = mergeOverwrite $file (dict "kubeletplugin" (dict "kubeletRoot" .Values.kubeletRoot)) -}}
{{- end -}}
{{- mergeOverwrite $file .Values.settings | toYaml }}
{{ end -}}

{{- /* The name has a digest of the settings, so that a change of them restarts the programs. */ -}}
{{- define "lode.settingsName" -}}
lode-settings-{{ include "lode.settings" . | sha256sum | trunc 10 }}
{{- end -}}
