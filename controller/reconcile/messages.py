"""Why no node takes a pod, as the text of the pod's condition and Event and as a value for JSON. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.allocation import NodeReasons, Summary, Unsatisfiable, render, summarise
from controller.reconcile.refusals import NodeRefusal
from driver.limits import MAX_EVENT_MESSAGE


def refusal_message(refusals: Mapping[str, NodeRefusal], claims: Sequence[str]) -> str:
    """The reasons in at most ``MAX_EVENT_MESSAGE`` characters; nodes with equal reasons are grouped.

    Args:
        refusals: every node tried, and why it refuses the pod.
        claims: keys of the pod's claims, in the order in which they were tried.
    """
    if not refusals:
        return "no node can reach all devices that the pod's claims already hold"
    head = f"0 of {len(refusals)} {'node' if len(refusals) == 1 else 'nodes'} can take the pod. "
    return head + render(refusal_summary(refusals, claims), MAX_EVENT_MESSAGE - len(head))


def refusal_summary(refusals: Mapping[str, NodeRefusal], claims: Sequence[str]) -> Summary:
    """The same as a value, for JSON: ``Summary.to_json`` documents its keys."""
    return summarise(
        {name: NodeReasons(refusal.reasons, _device_reasons(refusal, claims)) for name, refusal in refusals.items()}
    )


def _device_reasons(refusal: NodeRefusal, claims: Sequence[str]) -> Unsatisfiable | None:
    """The reasons found for claims with equal specs, with the names of these claims."""
    devices = refusal.devices
    if devices is None or refusal.claims == tuple(claims):
        return devices
    names = dict(zip(refusal.claims, claims, strict=True))
    shortages = tuple(
        replace(shortage, claim=names.get(shortage.claim, shortage.claim)) for shortage in devices.shortages
    )
    return replace(devices, shortages=shortages)
