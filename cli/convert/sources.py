"""Which system a pod was written for. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from driver.adoption import PLAIN, SOURCES, Source

_NVIDIA: Final = SOURCES["nvidia"]
_HAMI: Final = SOURCES["hami"]
_BOTH: Final = frozenset(_NVIDIA.resources) & frozenset(_HAMI.resources)
"""Resources that mean nearly the same for NVIDIA's device plugin and for HAMi."""


def sources_with(plain: Mapping[str, str]) -> dict[str, Source]:
    """The sources by name, with the device class of each plain resource."""
    return {**SOURCES, PLAIN: replace(SOURCES[PLAIN], resources=dict(plain))}


def sources_of(pod: Mapping[str, Any], chosen: Mapping[str, Source]) -> list[Source]:
    """The sources among ``chosen`` whose resources the containers of a pod ask for, in the order of ``SOURCES``.

    A pod with ``nvidia.com/gpu`` was written for HAMi if it has anything else that only HAMi knows.
    """
    asked = set(resources_of(pod))
    found = [source for source in chosen.values() if asked & {*source.every_resource}]
    if _NVIDIA in found and _HAMI in found:
        found.remove(_NVIDIA if _is_for_hami(pod, asked) else _HAMI)
    return found


def resources_of(pod: Mapping[str, Any]) -> Iterator[str]:
    """The names of all resources that containers of a pod ask for."""
    spec = pod["spec"]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        for amounts in _amounts(container.get("resources")):
            yield from amounts


def _amounts(resources: Any) -> Sequence[Mapping[str, Any]]:
    resources = resources or {}
    return [resources.get(part) or {} for part in ("limits", "requests")]


def _is_for_hami(pod: Mapping[str, Any], asked: set[str]) -> bool:
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return (
        bool(asked & {*_HAMI.every_resource} - _BOTH)
        or any(key in annotations for key in _HAMI.annotations)
        or pod["spec"].get("schedulerName") in _HAMI.schedulers
    )
