"""Which system a pod was written for. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from driver.adoption import PLAIN, SOURCES, AdoptionSource, resources_of

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
