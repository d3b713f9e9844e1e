"""What a pod wants of its node by labels that NVIDIA's GPU feature discovery writes. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver.adoption import migs
from driver.errors import Fault

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
