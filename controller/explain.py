"""Why no node takes a pod, in words for the pod's condition and Event. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.allocation import Unsatisfiable, render
from controller.records import NodeRefusal

LIMIT = 1024
"""Most characters of an Event's message (core/v1)."""


def explain(refused: Mapping[str, NodeRefusal], claims: Sequence[str]) -> str:
    """The reasons, nodes with the same ones told together, in at most ``LIMIT`` characters.

    Args:
        refused: every node tried, and why not.
        claims: keys of the claims to speak of, in the order in which they were tried.
    """
    if not refused:
        return "no node exists from which all that the pod's claims hold already can be reached"
    counted = Counter("; ".join(refusal.reasons) for refusal in refused.values() if refusal.reasons)
    parts = [
        f"{_nodes(count)}: {reason}" for reason, count in sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    ]
    devices = {name: _told_of(refusal, claims) for name, refusal in refused.items() if refusal.devices is not None}
    head = f"0 of {_nodes(len(refused))} can take the pod. "
    text = head + ". ".join([*parts, render(devices)] if devices else parts)
    return text if len(text) <= LIMIT else text[: LIMIT - 1] + "…"


def _told_of(refusal: NodeRefusal, claims: Sequence[str]) -> Unsatisfiable:
    """What was found for claims with the same specs, said of these."""
    assert refusal.devices is not None
    if refusal.claims == tuple(claims):
        return refusal.devices
    names = dict(zip(refusal.claims, claims, strict=True))
    shortages = tuple(replace(one, claim=names.get(one.claim, one.claim)) for one in refusal.devices.shortages)
    return replace(refusal.devices, shortages=shortages)


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"
