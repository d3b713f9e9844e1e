"""Who would have to go for a pod or gang, or why nobody can: as values, and in words. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.placement import Placement
from controller.reconcile.decisions import Victim, Wait
from controller.refusal import Refusal

_MOST_NAMED: Final = 8
"""Most pods that are named."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A way to place the pods.

    Attributes:
        placements: node and devices of each pod once the others are gone, in the order of the pods. Members of a gang
            beyond its minimum may have none.
        victims: the pods to evict, in this order; none if there is room without. Those come first whose end makes no
            room, and who go only because others do; so the room is not there before all are asked to go. Otherwise, the
            lowest priority comes first, then the youngest.
        awaited: pods that are being deleted already, on whose nodes or claims the placements rely.
        least: whether no other set of victims is better. If not, the search ended early; then still none of the victims
            could be spared in these places.
    """

    placements: tuple[Placement, ...]
    victims: tuple[Victim, ...] = ()
    awaited: tuple[Victim, ...] = ()
    least: bool = True


@dataclass(frozen=True, slots=True)
class KeptPods:
    """Pods that are not evicted, for one reason.

    Attributes:
        reason: a clause about pods, such as "do not have a lower priority".
        pods: how many they are.
        some: keys of the first ones.
    """

    reason: str
    pods: int
    some: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unevicted:
    """Why nobody is evicted for a pod or gang: no eviction that is allowed makes room.

    Attributes:
        kept: the pods that are not evicted, by reason, the most frequent reason first.
        in_vain: number of pods that could be evicted, but whose end makes no room.
        never: why the pod or gang preempts nobody, whoever there is; "" if it may.
        decided: False if the search ended early, so that there may be a way.
        over_quota: what is told, if the quotas of its namespace do not allow what it would get; None otherwise.
        unbound: whether pods of lower priority are about to be bound, so that there may be victims then.
        unpublished: whether it also asks for devices of other drivers that no slice has. Others of its shape may not.
    """

    kept: tuple[KeptPods, ...] = ()
    in_vain: int = 0
    never: str = ""
    decided: bool = True
    over_quota: Wait | None = None
    unbound: bool = False
    unpublished: bool = False


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
