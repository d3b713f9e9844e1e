{{- define "lode.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "lode.driver" -}}
{{- if ne .Values.driverName "lode.dev" }}{{ dict "driverName" .Values.driverName | toYaml }}{{ end -}}
{{- end -}}

{{- /* The settings file of the plugin: the one of the hardware, with the values of `settings` over it. It has no
       section of the controller, because a change of its text restarts the plugin. */ -}}
{{- define "lode.settings.kubeletplugin" -}}
{{- $file := .Files.Get (printf "files/settings/%s.yaml" .Values.hardware) | fromYaml -}}
{{- if ne .Values.kubeletRoot "/var/lib/kubelet" -}}
{{- $file = mergeOverwrite $file (dict "kubeletplugin" (dict "kubeletRoot" .Values.kubeletRoot)) -}}
{{- end -}}
{{- mergeOverwrite $file (omit .Values.settings "controller") (include "lode.driver" . | fromYaml) | toYaml }}
{{ end -}}

{{- define "lode.settings.controller" -}}
{{- $file := .Files.Get "files/settings/controller.yaml" | fromYaml -}}
{{- mergeOverwrite $file (omit .Values.settings "kubeletplugin") (include "lode.driver" . | fromYaml) | toYaml }}
{{ end -}}

{{- /* The name has a digest of the settings, so that a change of them restarts their program. */ -}}
{{- define "lode.settingsName" -}}
lode-settings-{{ . | sha256sum | trunc 10 }}
{{- end -}}

{{- /* The resources of the source plain as a list in CEL, which JSON is. */ -}}
{{- define "lode.plainClasses" -}}
{{- $classes := list -}}
{{- range $resource, $class := .Values.adopt.plain -}}
{{- $classes = append $classes (printf "%s=%s" $resource $class) -}}
{{- end -}}
{{- $classes | toJson -}}
{{- end -}}

{{- /* The drivers whose devices the controller allocates, as policies test them, in CEL, and name them. */ -}}
{{- define "lode.allocatedTest" -}}
{{- $also := ((.Values.settings).controller).alsoAllocates -}}
{{- if $also }}in {{ prepend $also .Values.driverName | toJson }}{{ else }}== {{ .Values.driverName | quote }}{{ end -}}
{{- end -}}

{{- define "lode.allocatedPattern" -}}
{{- $also := ((.Values.settings).controller).alsoAllocates -}}
{{- $every := prepend ($also | default list) .Values.driverName | join "|" | replace "." "[.]" -}}
{{- if $also }}({{ $every }}){{ else }}{{ $every }}{{ end -}}
{{- end -}}

{{- define "lode.allocatedDrivers" -}}
{{- $also := ((.Values.settings).controller).alsoAllocates -}}
the driver{{ if $also }}s{{ end }} {{ prepend ($also | default list) .Values.driverName | join ", " }}
{{- end -}}
