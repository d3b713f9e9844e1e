"""The history of pods: the nodes where kube-scheduler refused one or tries it again, and the evictions for it. Pure.

The rules
    A node that refused the pod is not tried again until others change something on it, or the pod's volumes
    (``State.revision_of``). Every other node is tried before a node that refused once comes again, and of these the one
    that refused longest ago. If every node that could take the pod has refused it, the pod waits for a change.

    A plugin of kube-scheduler can look at objects that the controller does not watch. Therefore there is a last resort:
    ``LAST_RESORT_SECONDS`` after the last refusal, one node is tried again: of those that have devices, the one that
    refused longest ago. kube-scheduler itself tries pods again after that time (podMaxInUnschedulablePodsDuration). The
    time doubles with each refusal that follows, up to an hour.

    If a write of a placement is refused for which others were evicted, nobody is evicted for the pod again for
    ``LAST_RESORT_SECONDS``, and then ever more rarely: it would be refused again, and they would have gone in vain.

    ``PATIENCE_SECONDS`` is long enough for the second attempt of kube-scheduler, which follows after one second
    (podInitialBackoffSeconds): the first may have missed the allocation, because a watch was late.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controller.allocation import NodeReasons
from controller.reconcile.decisions import Decision, LetGo, MakeRoom, PlacePod, Reason, Release, TakeBack, Wait
from controller.state import NEVER
from controller.state.knownnodes import Revision
from driver.backoff import delay

PATIENCE_SECONDS = 3.0
"""Time that kube-scheduler may find a placed pod unschedulable before its devices are taken back, at first."""
QUICK_REFUSALS = 6
"""Refusals after which the patience doubles each time, so that a pod that fits nowhere is moved ever more rarely."""
LAST_RESORT_SECONDS = 300.0
"""Time that a pod refused by every node waits for a change before one node is tried again without one."""
RAREST_RESORT_SECONDS = 3600.0
"""Bound of that time, which doubles with each refusal of a node that had refused before."""


@dataclass(frozen=True, slots=True)
class Evictions:
    """The evictions for a pod since a placement of it was written whole."""

    begun: bool = False
    """True if somebody was evicted for the next placement."""
    in_vain: int = 0
    """The number of placements for which others were evicted, and a write of which was refused."""
    again_at: float = NEVER
    """Time before which nobody is evicted for the pod."""


NO_EVICTIONS = Evictions()
RELEASE_SECONDS = 1.0
"""Least time that a dropped reservation must have been visible before the allocation is cleared."""


@dataclass(frozen=True, slots=True)
class PlacementHistory:
    """The placements of a pod that failed. Losing it costs retries, never correctness.

    All times are seconds as of ``State.at``.
    """

    failures: int = 0
    """The number of times that kube-scheduler found the pod unschedulable on the node of its devices."""
    refused: Mapping[str, NodeReasons] = field(default_factory=dict)
    """What kube-scheduler said of each node on which it refused the pod, the oldest first. Its ``version`` is the
    revision of the node when the pod was placed there: kube-scheduler may not have seen later changes."""
    refused_at: float = NEVER
    """Time at which it refused the pod last."""
    placed: Revision | None = None
    """The revision of the node on which the pod was placed, when it was; None if that is not known."""
    released: float | None = None
    """Time at which a ``Release`` dropped the pod's reservations."""
    spared: float = NEVER
    """Time at which kube-scheduler was last seen making room for the pod on the node of its devices."""
    preempting: bool = False
    """True if kube-scheduler was making room at the last decision."""
    unwritten: Wait | None = None
    """What the pod is told since the API server refused a write of its last placement, as it will again unless somebody
    acts; None if it did not."""
    written_again: float = NEVER
    """Time at which that placement is tried again."""
    keeps: bool = False
    """True if the pod keeps its devices meanwhile, because only the rest was not written."""
    evictions: Evictions = NO_EVICTIONS
    unbound: int = 0
    """The number of times that nobody bound the pod when it had its devices, one after the other."""
    unbound_at: float = NEVER
    """Time at which its reservations were dropped for that."""

    def after_refused_write(
        self, wait: Wait, now: float, pause: float, *, keeps: bool, evicted: bool
    ) -> "PlacementHistory":
        """Return the history once a write of a placement was refused at ``now``.

        Args:
            wait: what the pod is told meanwhile.
            pause: seconds after which the placement is tried again.
            keeps: whether the pod keeps its devices meanwhile.
            evicted: whether others were evicted for the placement.
        """
        evictions = self.evictions
        if evicted:
            in_vain = evictions.in_vain + 1
            rest = delay(in_vain, base=LAST_RESORT_SECONDS, bound=RAREST_RESORT_SECONDS)
            evictions = Evictions(in_vain=in_vain, again_at=now + rest)
        return replace(self, unwritten=wait, written_again=now + pause, keeps=keeps, evictions=evictions)

    def rests_until(self, base: float) -> float:
        """Return until when the pod gets no devices: ``base`` seconds at first, and twice as long each time."""
        return self.unbound_at + delay(max(1, self.unbound), base=base, bound=RAREST_RESORT_SECONDS)

    def until_visible(self, now: float) -> float:
        """Return the seconds until dropped reservations have been visible for long enough; not positive if they have.

        It is compared with 0, and nothing else is: a test that is rounded in another way would ask for a wait of 0 s.
        """
        return NEVER if self.released is None else self.released + RELEASE_SECONDS - now

    def patience(self, max_wait: float) -> float:
        """Return the seconds that kube-scheduler gets to bind the pod after its devices were allocated."""
        return delay(max(1, self.failures - QUICK_REFUSALS + 2), base=PATIENCE_SECONDS, bound=max_wait)

    def standing(self, revision_of: Callable[[str], Revision], now: float) -> Mapping[str, NodeReasons]:
        """Return the nodes whose refusal holds at ``now``, the oldest first, each with what kube-scheduler said.

        None holds at the last resort: the node refused longest ago may have no devices by then.
        """
        if now >= self.last_resort_at:
            return {}
        return {name: reasons for name, reasons in self.refused.items() if reasons.version == revision_of(name)}

    @property
    def last_resort_at(self) -> float:
        """Time at which a node that refused is tried again although nothing has changed."""
        repeated = self.failures - len(self.refused)
        pause = delay(max(1, repeated + 1), base=LAST_RESORT_SECONDS, bound=RAREST_RESORT_SECONDS)
        return self.refused_at + pause

    def after(self, decision: Decision, now: float) -> "PlacementHistory":
        """Return the history once the decision was carried out at ``now``."""
        match decision:
            case PlacePod(allocations=allocations, revision=revision, admit=admit):
                evictions = NO_EVICTIONS if admit else self.evictions
                placed = revision if allocations else self.placed
                return replace(self, unwritten=None, placed=placed, evictions=evictions)
            case MakeRoom(victim=victim) if victim is not None:
                return replace(self, evictions=replace(self.evictions, begun=True))
            case LetGo():
                return replace(self, unwritten=None)
            case Release(unbound=True):
                return replace(self, released=now, unbound=self.unbound + 1, unbound_at=now)
            case Release():
                return replace(self, released=now)
            case TakeBack(unbound=True):
                return replace(self, released=None)
            case Wait(reason=Reason.PREEMPTING):
                return replace(self, spared=now, preempting=True)
            case Wait(reason=Reason.REFUSED) if self.preempting:
                return replace(self, spared=now, preempting=False)
            case TakeBack(node=node, unschedulable=True, verdict=message, revision=revision):
                others = {name: reasons for name, reasons in self.refused.items() if name != node}
                reasons = reasons_of_scheduler(message, revision if self.placed is None else self.placed)
                return PlacementHistory(
                    self.failures + 1, {**others, node: reasons}, refused_at=now, evictions=self.evictions
                )
        return self


NO_HISTORY = PlacementHistory()


class NodesBeingRetried:
    """The pods that were refused and placed anew, by shape, until they are bound.

    A node is retried for one pod of a shape at a time: if it refuses one, it likely refuses the others, too. If it
    takes one, required anti-affinity may rule it out for the others. So pods of a Deployment that were refused together
    go to different nodes.
    """

    def __init__(self) -> None:
        self._shapes: dict[str, Hashable] = {}
        self._nodes: dict[Hashable, dict[str, str]] = {}

    def placed(self, pod: str, shape: Hashable, node: str) -> None:
        """Note that the pod has devices on the node."""
        self._shapes[pod] = shape
        retried = self._nodes.get(shape, {})
        if pod in retried:
            retried[pod] = node

    def refused(self, pod: str) -> None:
        """Note that kube-scheduler refused the pod, and that its devices were taken back."""
        if (shape := self._shapes.get(pod)) is not None:
            self._nodes.setdefault(shape, {})[pod] = ""

    def settled(self, pod: str) -> None:
        """Forget the pod: it is bound, or is gone."""
        shape = self._shapes.pop(pod, None)
        retried = self._nodes.get(shape, {})
        retried.pop(pod, None)
        if not retried:
            self._nodes.pop(shape, None)

    def of_others(self, pod: str) -> tuple[str, ...]:
        """Return the nodes where other pods of the shape are placed, if the pod was refused before, as they were."""
        retried = self._nodes.get(self._shapes.get(pod), {})
        if pod not in retried:
            return ()
        return tuple(dict.fromkeys(node for other, node in retried.items() if node and other != pod))


# What kube-scheduler says

_NODES: Final = re.compile(r"0/\d+ nodes are available: (?P<clauses>.*?)(?:\.(?:\s|\Z)|\Z)", re.DOTALL)
"""The first sentence (k8s.io/kube-scheduler framework, FitError); what follows is about preemption."""
_BETWEEN: Final = re.compile(r"[,;] (?=\d+ |node\(s\)|[A-Z])")
_COUNT: Final = re.compile(r"\d+ ")
_FROM_THE_ALLOCATION: Final = ("resourceclaim not available on the node", "cannot allocate all claims")
"""Clauses of the plugin DynamicResources about all nodes but the one that the allocation names."""
_ABOUT_OTHER_NODES: Final = (
    "node(s) had untolerated taint",
    "node(s) were unschedulable",
    "node(s) didn't match Pod's node affinity/selector",
)
"""Clauses about rules that the controller checks itself, so that no node of its choice can have caused them."""
_MOST_CHARACTERS: Final = 300


def relevant_reason(message: str) -> str:
    """Return the part of kube-scheduler's message that is about the node of the pod's allocation.

    The message counts the reasons of all nodes: ``0/6 nodes are available: 1 node(s) didn't match pod anti-affinity
    rules, 5 resourceclaim not available on the node. preemption: ...``. The allocation itself rules out all nodes but
    one. So clauses that say so are left out, and with them the numbers and the rules that the controller has checked
    itself. A message in another form is returned as it is.
    """
    found = _NODES.match(message)
    if found is None:
        return _cut(message)
    clauses = [_COUNT.sub("", clause, count=1) for clause in _BETWEEN.split(found["clauses"])]
    others = [clause for clause in clauses if clause not in _FROM_THE_ALLOCATION]
    useful = [clause for clause in others if not clause.startswith(_ABOUT_OTHER_NODES)]
    return _cut(", ".join(useful or others or clauses))


def reasons_of_scheduler(message: str, revision: Revision) -> NodeReasons:
    """Return why a node refused a pod, from kube-scheduler's message about the pod when its devices were there."""
    clause = relevant_reason(message)
    return NodeReasons((f"kube-scheduler refused the pod there: {clause}",), clause=clause, version=revision)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
