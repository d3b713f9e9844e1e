"""What becomes of one pod or pod template. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cli.convert.labels import noted_labels, parts_of_cards
from cli.convert.sources import sources_of
from driver.adoption import AdoptionSource, adopt, resources_of
from driver.errors import Fault
from driver.names import Names
from kubeletplugin.hardware.vendors import vendor_of_resource

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
