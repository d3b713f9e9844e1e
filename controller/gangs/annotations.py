"""Reads topology levels from annotations of a pod. Pure."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from controller.gangs.gang import Level
from driver.errors import Fault
from driver.wire import Json
from driver.wire.fields import integer, text

_KUEUE: Final = "kueue.x-k8s.io/"
_LAYERS: Final = f"{_KUEUE}podset-slice-required-topology-constraints"
_SLICE_SIZE: Final = f"{_KUEUE}podset-slice-size"
_EXCLUSIVE: Final = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
)
_LONGEST: Final = 100
"""Characters of a value that a fault quotes."""
_NODE_SELECTOR_STRATEGY: Final = "alpha.jobset.sigs.k8s.io/node-selector"


def topology_asked(pod: Json) -> tuple[tuple[Level, ...] | None, tuple[Fault, ...]]:
    """The levels that Kueue's annotations ask for, outermost first, and the faults of the annotations.

    The levels are None if Kueue itself chooses the domain, which its gate and its annotation with the name of the
    workload tell. Kueue then writes its choice into the pod's node selector, and that is obeyed like any other.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = metadata.get("annotations") or {}
    gated = any(gate["name"] == f"{_KUEUE}topology" for gate in spec.get("schedulingGates") or ())
    if gated or f"{_KUEUE}workload" in annotations:
        return None, ()
    levels = []
    if key := text(annotations.get(f"{_KUEUE}podset-required-topology")):
        levels.append(Level(key, "nodeLabel"))
    elif key := text(annotations.get(f"{_KUEUE}podset-preferred-topology")):
        levels.append(Level(key, "nodeLabel", required=False))
    slices, faults = _slices(annotations)
    selected = spec.get("nodeSelector") or {}
    levels = [level for level in (*levels, *slices) if level.key not in selected]
    return tuple(levels) or None, faults


def _slices(annotations: Json) -> tuple[tuple[Level, ...], tuple[Fault, ...]]:
    """The levels that keep groups of members together, which Kueue calls slices."""
    layers, key = annotations.get(_LAYERS), annotations.get(f"{_KUEUE}podset-slice-required-topology")
    if layers is None and key is None:
        return (), ()
    name, written = (_LAYERS, layers) if layers is not None else (_SLICE_SIZE, annotations.get(_SLICE_SIZE))
    try:
        one: Sequence[Json] = [{"topology": key, "size": written}]
        said = [(layer["topology"], layer["size"]) for layer in (json.loads(layers) if layers is not None else one)]
        return tuple(Level(text(key), "nodeLabel", group_size=_size(size)) for key, size in said), ()
    except (KeyError, RecursionError, TypeError, ValueError):
        remedy = "correct it, or ask for topology in the PlacementConfig of a claim"
        message = f"{str(written)[:_LONGEST]}: not what Kueue reads; {remedy}"
        return (), (Fault(f"metadata.annotations[{name}]", message),)


def _size(said: int | str) -> int:
    if (size := int(said) if isinstance(said, str) else integer(said)) < 1:
        raise ValueError(said)
    return size


def exclusive_faults(annotations: Json) -> Iterable[Fault]:
    """Faults for annotations that reserve a domain for one group.

    Their controllers make the other pods only when the first one is on a node, so the gang would never be complete.
    JobSet's strategy with node selectors does not wait for a pod.
    """
    if _NODE_SELECTOR_STRATEGY in annotations:
        return
    for name in _EXCLUSIVE:
        if key := text(annotations.get(name)):
            remedy = "remove it, and ask for topology in the PlacementConfig of a claim"
            message = f"{key}: a domain for one group alone is not supported in a gang; {remedy}"
            yield Fault(f"metadata.annotations[{name}]", message)
