"""The text of a Helm template from an object that kustomize built.

Values of the chart replace single fields. An empty value leaves what the manifests say, so that they stay the only
place with defaults.
"""

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from charts.adoption import CLASSES
from driver.adoption import PLAIN
from driver.allocated_texts import for_drivers
from driver.names import CONTROLLER_NAMESPACE, PLUGIN_NAMESPACE, renamed

Object = dict[str, Any]

_RELEASE = {
    "app.kubernetes.io/instance: lode": "app.kubernetes.io/instance: {{ .Release.Name | quote }}",
    "app.kubernetes.io/managed-by: kustomize": "app.kubernetes.io/managed-by: {{ .Release.Service | quote }}",
}
"""Lines that say by what the objects were installed."""

_GENERATED = "# Generated from manifests/ by `make chart`.\n"
_POD = ("spec", "template", "spec")
_CONTAINER = (*_POD, "containers", 0)

PROGRAMS = {PLUGIN_NAMESPACE: "kubeletplugin", CONTROLLER_NAMESPACE: "controller"}
"""The program of each namespace, which has its settings there."""

_PODS = {
    "lode-kubeletplugin": "kubeletplugin",
    "lode-controller": "controller",
    "lode-ui": "ui",
}
"""The section of values for each workload."""

_FIELDS: tuple[tuple[tuple[str | int, ...], str], ...] = (
    ((*_POD, "nodeSelector"), "{section}.nodeSelector"),
    ((*_POD, "tolerations"), "{section}.tolerations"),
    ((*_POD, "affinity"), "{section}.affinity"),
    ((*_POD, "priorityClassName"), "{section}.priorityClassName"),
    ((*_POD, "imagePullSecrets"), "imagePullSecrets"),
    ((*_CONTAINER, "resources"), "{section}.resources"),
    ((*_CONTAINER, "imagePullPolicy"), "image.pullPolicy"),
)
_FIELDS_OF_KIND: dict[str, tuple[tuple[tuple[str | int, ...], str], ...]] = {
    "DaemonSet": (
        ((*_CONTAINER, "securityContext", "seLinuxOptions"), "kubeletplugin.seLinuxOptions"),
        (("spec", "updateStrategy"), "kubeletplugin.updateStrategy"),
    ),
    "Deployment": ((("spec", "replicas"), "{section}.replicas"),),
}
_EXTENDED_RESOURCES = {"gpu.lode.dev": "extendedResources.gpu", "npu.lode.dev": "extendedResources.npu"}
"""The values with the `extendedResourceName` of device classes."""
_OF_DRIVERS = ("allocatedTest", "allocatedPattern", "allocatedDrivers")
"""The named templates with what policies say of the drivers whose devices the controller allocates."""


@dataclass(frozen=True)
class Case:
    """The object as it is for one value of `hardware`."""

    hardware: str
    obj: Object


def template(cases: Sequence[Case], allocator: str, opted_in: Object) -> str:
    """The template of an object; `cases` has it for every hardware.

    `allocator`: the object exists only where this program allocates; "" for both.
    `opted_in`: the object if only namespaces with a label have the gate; it differs in nothing but that selector.
    """
    texts = [_rendered(case.obj) for case in cases]
    if all(text == texts[0] for text in texts):
        body = texts[0]
    else:
        words = ("if", *["else if"] * (len(cases) - 1))
        body = "".join(
            f'{{{{- {word} eq .Values.hardware "{case.hardware}" }}}}\n{text}'
            for word, case, text in zip(words, cases, texts, strict=True)
        )
        body += "{{- end }}\n"
    if opted_in != cases[0].obj:
        body = f"{{{{- if .Values.gateOptIn }}}}\n{_rendered(opted_in)}{{{{- else }}}}\n{body}{{{{- end }}}}\n"
    if cases[0].obj["kind"] == "Namespace":
        body = f"{{{{- if .Values.createNamespaces }}}}\n{body}{{{{- end }}}}\n"
    if allocator:
        body = f'{{{{- if eq .Values.allocator "{allocator}" }}}}\n{body}{{{{- end }}}}\n'
    return f"{_GENERATED}{body}"


def of_setting(condition: str, obj: Object) -> str:
    """The template of an object that exists only where a setting is on, by its condition in the chart."""
    also = " .Values.createNamespaces" if obj["kind"] == "Namespace" else ""
    whole = f"and ({condition}){also}" if also else condition
    return f"{_GENERATED}{{{{- if {whole} }}}}\n{_rendered(obj)}{{{{- end }}}}\n"


def of_source(source: str, obj: Object, everywhere: Object) -> str:
    """The template of an object of the policies that adopt pods of a source.

    `everywhere`: the object for all namespaces.
    """
    there = ".Values.adopt.plain" if source == PLAIN else f'(has "{source}" .Values.adopt.sources)'
    body = _rendered(obj)
    if everywhere != obj:
        body = f"{{{{- if .Values.adopt.everywhere }}}}\n{_rendered(everywhere)}{{{{- else }}}}\n{body}{{{{- end }}}}\n"
    return f'{_GENERATED}{{{{- if and (eq .Values.allocator "controller") {there} }}}}\n{body}{{{{- end }}}}\n'


def _rendered(obj: Object) -> str:
    obj = copy.deepcopy(obj)
    kind = obj["kind"]
    originals: dict[str, tuple[str, object]] = {}
    if kind in _FIELDS_OF_KIND:
        section = _PODS[obj["metadata"]["name"]]
        for path, value in ((path, it.format(section=section)) for path, it in (*_FIELDS, *_FIELDS_OF_KIND[kind])):
            token = f"VALUE{len(originals)}X"
            originals[token] = (value, _replace(obj, path, token))
        pod = obj["spec"]["template"]["spec"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            container["image"] = "IMAGEX"
    if kind == "DeviceClass" and (named := _EXTENDED_RESOURCES.get(obj["metadata"]["name"])):
        originals["VALUEX"] = (named, _replace(obj, ("spec", "extendedResourceName"), "VALUEX"))
    for variable in obj.get("spec", {}).get("variables", ()):
        if variable["name"] == CLASSES:
            variable["expression"] = "CLASSESX"
    settings = f'include "lode.settings.{PROGRAMS.get(obj["metadata"].get("namespace", ""))}" .'
    if kind == "ConfigMap":
        obj["data"]["settings.yaml"] = "SETTINGSX"
    text = _dumped(obj).replace("{{", '{{ "{{" }}')
    for line, released in _RELEASE.items():
        text = text.replace(f"{line}\n", f"{released}\n")
    text = text.replace("IMAGEX", '{{ include "lode.image" . | quote }}')
    text = text.replace("CLASSESX", '{{ include "lode.plainClasses" . | quote }}')
    text = text.replace("SETTINGSX", f"{{{{ {settings} | quote }}}}")
    name = f'{{{{ include "lode.settingsName" ({settings}) }}}}'
    text = re.sub(r"lode-settings-[a-z0-9]{10}\b", lambda _: name, text)
    if kind == "DaemonSet":
        text = text.replace("/var/lib/kubelet/", "{{ .Values.kubeletRoot }}/")
    for token, (value, original) in originals.items():
        text = _with_value(text, token, value, original)
    text = for_drivers(text, *(f'{{{{ include "lode.{name}" . }}}}' for name in _OF_DRIVERS))
    driver = ".Values.driverName"
    return renamed(text, f"{{{{ {driver} }}}}", f'{{{{ {driver} | replace "." "[.]" }}}}')


def _replace(obj: Object, path: Sequence[str | int], token: str) -> object:
    """Put `token` at `path`; returns what was there, or None."""
    found: Any = obj
    for step in path[:-1]:
        found = found[step]
    original = found.get(path[-1])
    found[path[-1]] = token
    return original


def _with_value(text: str, token: str, value: str, original: object) -> str:
    """Replace the line `key: token` by the chart's value, or by the original field if the value is empty."""

    def lines(match: re.Match[str]) -> str:
        indent, key = match[1], match[2]
        parts = [
            f"{{{{- with .Values.{value} }}}}",
            f"{indent}{key}: {{{{- toYaml . | nindent {len(indent) + 2} }}}}",
        ]
        if original is not None:
            kept = _dumped({key: original}).rstrip().splitlines()
            parts += ["{{- else }}", *(f"{indent}{line}" for line in kept)]
        return "\n".join([*parts, "{{- end }}"])

    return re.sub(rf"^( *)(\w+): {token}$", lines, text, flags=re.MULTILINE)


def _dumped(value: object) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, width=1_000_000))
