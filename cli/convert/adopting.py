"""What becomes of one pod or pod template, by the system for which it was written and the labels it wants. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from driver.adoption import PLAIN, SOURCES, AdoptionSource, adopt, migs, resources_of
from driver.errors import Fault
from driver.names import Names
from kubeletplugin.hardware.vendors import vendor_of_resource

_NVIDIA: Final = SOURCES["nvidia"]
_HAMI: Final = SOURCES["hami"]


def sources_with(plain: Mapping[str, str]) -> dict[str, AdoptionSource]:
    """The sources by name, with the device class of each plain resource."""
    return {**SOURCES, PLAIN: replace(SOURCES[PLAIN], resources=dict(plain))}


def sources_of(pod: Mapping[str, Any], chosen: Mapping[str, AdoptionSource]) -> list[AdoptionSource]:
    """The sources among ``chosen`` whose resources the containers of a pod ask for, in the order of ``SOURCES``.

    A pod with ``nvidia.com/gpu`` was written for HAMi if it has anything else that only HAMi knows.
    """
    asked = resources_of(pod)
    found = [source for source in chosen.values() if source.taken(asked)]
    if _NVIDIA in found and _HAMI in found:
        found.remove(_NVIDIA if _is_for_hami(pod, asked) else _HAMI)
    return found


def _is_for_hami(pod: Mapping[str, Any], asked: set[str]) -> bool:
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return (
        bool({*_HAMI.taken(asked)} - {*_NVIDIA.taken(asked)})
        or any(key in annotations for key in _HAMI.annotations)
        or pod["spec"].get("schedulerName") in {*_HAMI.schedulers} - {*_NVIDIA.schedulers}
    )


_OURS: Final = "nvidia.com/"
_PRODUCT: Final = "nvidia.com/gpu.product"
_NEEDS_LABEL: Final = ("In", "Exists", "Gt", "Lt")
"""The operators of expressions that no node without the label meets."""
_NOTE: Final = (
    "is a label that NVIDIA's GPU feature discovery writes: keep it running, label the nodes yourself, or ask for the "
    "type of card in the claim"
)
_SHARED: Final = (
    "nvidia.com/gpu is a time slice on such nodes, and would become a whole card: ask for a share with a claim "
    "(docs/requests.md), or for whole cards by a product without -SHARED"
)
_MIG: Final = (
    "nvidia.com/gpu is a MIG device on such nodes, and would become a whole card: ask for {} instead, and remove the "
    "label"
)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A label that the node of a pod must have."""

    field: str
    """Path in the pod."""
    key: str
    values: tuple[str, ...]
    """Those of which it has one; () if any will do, or if they are limits."""


def noted_labels(spec: Mapping[str, Any]) -> list[Fault]:
    """What to keep in mind of the labels in a pod's spec; fields are paths in the pod."""
    return [Fault(it.field, f"{it.key} {_NOTE}") for it in _wanted(spec)]


def parts_of_cards(spec: Mapping[str, Any]) -> list[Fault]:
    """The products by which ``nvidia.com/gpu`` is a part of a card, with what to ask for instead.

    Where all MIG devices of a node are equal, and where cards are shared by time slices, the device plugin's
    ``nvidia.com/gpu`` is a part of a card, and only the product's label says so.
    """
    found = []
    for it in _wanted(spec):
        for value in it.values if it.key == _PRODUCT else ():
            if value.endswith("-SHARED"):
                found.append(Fault(it.field, f"{value!r}: {_SHARED}"))
            elif mig := re.search("-MIG-(.+)$", value):
                found.append(Fault(it.field, f"{value!r}: {_MIG.format(_resource(mig[1]))}"))
    return found


def _resource(profile: str) -> str:
    name = f"{migs.PREFIX}{profile}"
    return name if re.fullmatch(migs.RESOURCES, name) else f"{migs.PREFIX}<profile>"


def _wanted(spec: Mapping[str, Any]) -> Iterator[_Wanted]:
    for key, value in (spec.get("nodeSelector") or {}).items():
        if key.startswith(_OURS):
            yield _Wanted(f"spec.nodeSelector[{key}]", key, (str(value),))
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(required) or {}
    for number, term in enumerate(affinity.get("nodeSelectorTerms") or ()):
        for index, one in enumerate(term.get("matchExpressions") or ()):
            if one["key"].startswith(_OURS) and one["operator"] in _NEEDS_LABEL:
                path = f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[{number}].matchExpressions[{index}]"
                values = tuple(map(str, one.get("values") or ())) if one["operator"] == "In" else ()
                yield _Wanted(path, one["key"], values)


_NODE_NAME: Final = "pods with nodeName are left alone, because nobody schedules them; remove it to convert the pod"
_OUTPUT: Final = "metadata.annotations['huawei.com/Ascend"
_READS_OUTPUT: Final = (
    "reads an annotation that the controller writes for templates on demand only: if the container needs it, convert "
    "with --on-demand"
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """What is converted, and how.

    Attributes:
        sources: the systems whose pods are converted, by name.
        chosen: whether the user chose them; then others are left as they are.
        on_demand: whether templates are only named, and the controller makes them.
    """

    sources: Mapping[str, AdoptionSource]
    names: Names
    chosen: bool = False
    on_demand: bool = False

    def is_old(self, resource: str) -> bool:
        """Whether a resource is one that no pod may ask for any more."""
        if any(source.taken([resource]) for source in self.sources.values()):
            return True
        return not self.chosen and vendor_of_resource(resource) is not None


@dataclass(slots=True)
class AdoptedPod:
    """A pod with claims. Fields of faults and notes are paths in the pod.

    Attributes:
        pod: as it was if there are faults, or if it asks for nothing (not ``changed``).
        templates: names on demand by the entry of the pod.
    """

    pod: Mapping[str, Any]
    templates: Mapping[str, str] = field(default_factory=dict)
    changed: bool = False
    faults: list[Fault] = field(default_factory=list)
    notes: list[Fault] = field(default_factory=list)


def adopted(pod: Mapping[str, Any], conversion: Conversion) -> AdoptedPod:
    """The pod with claims in place of the resources of all systems that are converted.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: a field has a value of the wrong type.
    """
    found = AdoptedPod(pod)
    sources = sources_of(pod, conversion.sources)
    if sources and pod["spec"].get("nodeName"):
        found.notes.append(Fault("spec.nodeName", _NODE_NAME))
        return found
    changed, templates = pod, dict[str, str]()
    for source in sources:
        adoption = adopt(changed, source, named=conversion.on_demand)
        found.faults += [Fault(it.field, f"{it.value!r}: {it.remedy}") for it in adoption.refused]
        found.notes += [Fault(it.field, f"{it.value!r}: {it.remedy}") for it in adoption.noted]
        changed = adoption.pod
        templates |= adoption.templates
    if sources:
        found.notes += noted_labels(pod["spec"])
        found.faults += parts_of_cards(pod["spec"]) if "nvidia.com/gpu" in resources_of(pod) else []
        found.notes += [] if conversion.on_demand else _readers(pod)
    if not found.faults and (sources or not conversion.chosen):
        found.faults += _left_over(changed, sources)
    if not found.faults:
        found.pod, found.templates, found.changed = changed, templates, bool(sources)
    return found


def _readers(pod: Mapping[str, Any]) -> Iterator[Fault]:
    """Variables that have the value of an annotation with cards, as pods of MindCluster do."""
    for number, container in enumerate(pod["spec"]["containers"]):
        for index, variable in enumerate(container.get("env") or ()):
            field_ref = (variable.get("valueFrom") or {}).get("fieldRef") or {}
            if str(field_ref.get("fieldPath")).startswith(_OUTPUT):
                yield Fault(f"spec.containers[{number}].env[{index}]", _READS_OUTPUT)


def _left_over(pod: Mapping[str, Any], sources: list[AdoptionSource]) -> Iterator[Fault]:
    """Resources of device plugins that no source has."""
    if sources:
        remedy = f"means nothing to {' and '.join(it.name for it in sources)}: remove it, or choose another --source"
    else:
        remedy = "is no resource that is known here: write a claim, or name its device class with --plain"
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(pod["spec"].get(kind) or ()):
            for part in ("limits", "requests"):
                for name in (container.get("resources") or {}).get(part) or ():
                    if vendor_of_resource(name) is not None:
                        yield Fault(f"spec.{kind}[{number}].resources.{part}[{name}]", remedy)
