"""Why no node takes a pod, in words for the pod's condition and Event. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from controller.allocation import render
from controller.records import NodeRefusal
from driver.model import Claim

LIMIT = 1024
"""Most characters of an Event's message (core/v1)."""


def explain(refused: Mapping[str, NodeRefusal], claims: Sequence[Claim]) -> tuple[str, tuple[str, ...]]:
    """The message, by groups of nodes with the same reason, and the keys of claims that are at fault themselves."""
    if not refused:
        return "no node can reach all that the pod's claims hold already", ()
    counted = Counter("; ".join(refusal.reasons) for refusal in refused.values() if refusal.reasons)
    parts = [f"{_nodes(count)}: {reason}" for reason, count in sorted(counted.items(), key=lambda item: -item[1])]
    devices = {name: refusal.devices for name, refusal in refused.items() if refusal.devices is not None}
    if devices:
        parts.append(render(devices))
    message = f"0 of {_nodes(len(refused))} can take the pod. " + ". ".join(parts)
    return message if len(message) <= LIMIT else message[: LIMIT - 1] + "…", ()


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"
