"""Says in words who would be evicted, or why nobody. Pure."""

from collections.abc import Sequence
from typing import Final

from controller.preemption.values import Preemption, Unevicted
from controller.reconcile.decisions import Victim
from controller.refusal import Refusal

_MOST_NAMED: Final = 8
"""Most pods that are named."""


def render(answer: Preemption | Refusal[Unevicted]) -> str:
    """One line; "" if there is nothing to say, because there is room without victims, or the claims are faulty.

    It names pods of all namespaces: it is for readers who may list these.
    """
    if isinstance(answer, Refusal):
        return "" if answer.faults else _nobody(answer.why)
    awaited = _named(answer.awaited)
    if not answer.victims:
        return f"{_pods(answer.awaited)} being deleted already, which makes room: {awaited}" if awaited else ""
    text = f"evicting {_pods(answer.victims)} of lower priority makes room: {_named(answer.victims)}"
    if awaited:
        text += f"; besides {_pods(answer.awaited)} being deleted already: {awaited}"
    return text if answer.least else f"{text}; whether fewer would do was not searched to the end"


def _nobody(why: Unevicted) -> str:
    reasons = [why.never] if why.never else []
    for kept in why.kept:
        more = kept.pods - len(kept.some)
        some = ", ".join([*kept.some, *([f"{more} more"] if more else [])])
        reasons.append(f"{kept.pods} that {kept.reason} ({some})")
    if why.in_vain:
        reasons.append(f"{why.in_vain} whose end makes no room")
    if not why.decided:
        reasons.append("the search was cut short, so others might do")
    return f"no pod would be evicted: {'; '.join(reasons) or 'none holds what is missing'}"


def _pods(some: Sequence[Victim]) -> str:
    return "1 pod" if len(some) == 1 else f"{len(some)} pods"


def _named(some: Sequence[Victim]) -> str:
    by_node: dict[str, list[str]] = {}
    for victim in some[:_MOST_NAMED]:
        by_node.setdefault(victim.node, []).append(victim.pod)
    texts = [f"{', '.join(pods)} on node {node}" for node, pods in by_node.items()]
    more = len(some) - _MOST_NAMED
    return "; ".join([*texts, *([f"{more} more"] if more > 0 else [])])
