"""Why no node takes a pod, in words for the pod's condition and Event. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.allocation import NodeReasons, Summary, Unsatisfiable, render, summarise
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
    head = f"0 of {len(refused)} {'node' if len(refused) == 1 else 'nodes'} can take the pod. "
    return head + render(summary(refused, claims), LIMIT - len(head))


def summary(refused: Mapping[str, NodeRefusal], claims: Sequence[str]) -> Summary:
    """The same as a value, for JSON: ``Summary.to_json`` documents its keys."""
    return summarise({name: NodeReasons(one.reasons, _told_of(one, claims)) for name, one in refused.items()})


def _told_of(refusal: NodeRefusal, claims: Sequence[str]) -> Unsatisfiable | None:
    """What was found for claims with the same specs, said of these."""
    devices = refusal.devices
    if devices is None or refusal.claims == tuple(claims):
        return devices
    names = dict(zip(refusal.claims, claims, strict=True))
    shortages = tuple(replace(one, claim=names.get(one.claim, one.claim)) for one in devices.shortages)
    return replace(devices, shortages=shortages)
