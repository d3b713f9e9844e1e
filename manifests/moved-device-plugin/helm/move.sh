#!/bin/sh
# Post-renders the Helm chart of a vendor's device plugin, so that the plugin registers with Lode instead of the kubelet:
# its volume of the kubelet's folder becomes Lode's folder, and the registry of plugins is hidden from it.
set -eu
rendered=$(cat)
moved=$(printf '%s\n' "$rendered" | sed -E \
    -e 's,(^|[^A-Za-z])path: *"?[^"} ]*/device-plugins/?"?([ }]|$),\1path: /var/lib/kubelet/plugins/lode.dev/device-plugins\2,' \
    -e 's,([pP])ath: *"?[^"} ]*/plugins_registry/?"?([ }]|$),\1ath: /run/lode.dev/no-plugins-registry\2,')
if [ "$moved" = "$rendered" ]; then
    echo "move-device-plugin: no volume of the chart is the kubelet's folder device-plugins" >&2
    exit 1
fi
printf '%s\n' "$moved"
