"""Finds why no node takes a pod: asks each of them, in turns, once for all pods of a shape. Pure.

What nodes said is remembered twice: node by node, while nothing changes there (``AskedNodes``), and as the message for
all pods of the shape, for a few seconds although the cluster has changed (``MessageFinder``).
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from controller.allocation import NodeReasons
from controller.explaining.messages import HELD_BACK, Message, message_of
from controller.placement import PodCheck
from controller.reconcile.decisions import PodRefusal
from controller.reconcile.demand import reachable_nodes
from controller.reconcile.lettinggo import as_expected, hold_expected_foreign_use
from controller.reconcile.podclaims import as_decided, split_by_driver
from controller.state import ClaimRecord, PodView, State
from driver.bounded import BoundedCache

NOT_ASKED: Final = "not looked at: to find the reasons on every node takes too much work; simplify the claims"
"""The reason of a node that was left out because an explanation had used up its work."""
WORK_PER_NODE: Final = 20
"""Work that counts for each node besides the devices that are looked at, in the unit of ``Fleet.work``."""
NOTHING: Final[Mapping[str, NodeReasons]] = {}
"""What is known of nodes at first."""
FRESH_SECONDS: Final = 10.0
"""Time that an explanation is used for other pods of the shape although the cluster has changed since."""
TURN_WORK: Final = 30_000
"""Work of one turn, in the unit of ``Fleet.work``: about 0.1 s of one core of 2024, at most 0.4 s."""
MOST_WORK: Final = 60 * TURN_WORK
"""Work of one explanation. Nodes that are left then are not looked at."""
_ABANDONED_SECONDS: Final = 60.0
"""Time after which an explanation that was not continued is begun anew."""
_MOST_MESSAGES: Final = 256
"""Most shapes of pods whose message is remembered."""
_MOST_ASKED: Final = 64
"""Most shapes of pods for which the reasons of each node are remembered."""


class AskedNodes:
    """Why nodes refused pods, by shape of pod. Whoever asks all nodes fills it.

    With it, a node's reasons are found again only when something there has changed.
    """

    def __init__(self) -> None:
        self._reasons: BoundedCache[Hashable, dict[str, NodeReasons]] = BoundedCache(_MOST_ASKED)

    def reasons_of(self, shape: Hashable) -> Mapping[str, NodeReasons]:
        """Return why nodes refuse pods of this shape. What is said of a node holds while its version is the node's."""
        return self._reasons.get(shape, {})

    def remember(self, shape: Hashable, found: Mapping[str, NodeReasons]) -> None:
        """Remember the reasons that ``Questions`` found, by node."""
        lasting = {
            name: reasons for name, reasons in found.items() if reasons.version is not None and not reasons.clause
        }
        self._reasons[shape] = {**self._reasons.get(shape, {}), **lasting}


class Questions:
    """Asks each node that a pod could go to why it refuses the pod, in as many turns as that takes.

    Args:
        most: the work of all turns together, in the unit of ``Fleet.work``. Nodes that are left then are not asked.

    Attributes:
        reasons: the reasons found so far, by node; each is as old as its turn.
        impossible: True at the end if no node has devices for the claims even if nothing was in use, so that the pod
            waits in vain. False for a bound pod: it starts on its node or nowhere. Nodes that refuse the pod for other
            reasons count, too: it could go there later, if they have the devices.
    """

    def __init__(self, state: State, refusal: PodRefusal, most: float = inf):
        pod = state.pods[refusal.subject]
        records = [state.claims[key] for key in pod.claim_keys if key in state.claims]
        reachable = reachable_nodes(state, as_expected(state, pod, records))
        names: Iterable[str] = state.nodes if reachable is None else reachable
        self._open = deque([pod.node_name] if pod.node_name else names)
        self._left = most
        self._unsure: deque[str] | None = None
        """Nodes that refuse the pod for other reasons, and still have to be asked for the devices."""
        self.reasons: dict[str, NodeReasons] = {}
        self.impossible = False
        self._asked = 0

    def _work(self, state: State) -> int:
        return state.devices.work + self._asked * WORK_PER_NODE

    def ask(
        self, state: State, refusal: PodRefusal, known: Mapping[str, NodeReasons] = NOTHING, work: float = inf
    ) -> bool:
        """Ask further nodes; return whether all have been asked.

        Args:
            refusal: of this pod, or another one of its shape.
            known: why nodes refused pods of the shape before (``AskedNodes.reasons_of``).
            work: the most in this turn, in the unit of ``Fleet.work``. The last node may exceed it.
        """
        before = self._work(state)
        end = before + min(work, self._left)
        pod, claims = _decided(state, refusal)
        with hold_expected_foreign_use(state, [pod.key]) if split_by_driver(state, claims).others else nullcontext():
            self._ask_why(state, refusal, known, end)
        if not self._open:
            self._ask_for_devices(state, refusal, end)
        self._left -= self._work(state) - before
        if self._left <= 0 and (self._open or self._unsure):
            self.reasons.update((name, NodeReasons((NOT_ASKED,), asked=False)) for name in self._open)
            self._open.clear()
            self._unsure, self.impossible = deque(), False
        return not self._open and not self._unsure

    def _ask_why(self, state: State, refusal: PodRefusal, known: Mapping[str, NodeReasons], end: float) -> None:
        pod, claims = _decided(state, refusal)
        check = PodCheck(pod.key, pod.needs, state.nodes)
        common = check.version
        while self._open and self._work(state) < end:
            name = self._open.popleft()
            self._asked += 1
            if name in refusal.why.refused:
                self.reasons[name] = refusal.why.refused[name]
                continue
            version = state.nodes.version_of(name), common
            reasons = known.get(name)
            if reasons is None or reasons.version != version:
                reasons = _reasons(state, pod, check, claims, name, version=version)
            if reasons is None and name in refusal.why.held:
                reasons = NodeReasons((f"{HELD_BACK} {_named(refusal.why.held[name], pod)}, which comes first",))
            if reasons is not None:
                self.reasons[name] = reasons

    def _ask_for_devices(self, state: State, refusal: PodRefusal, end: float) -> None:
        """Find out whether the pod waits in vain."""
        if self._unsure is None:
            found = self.reasons.values()
            self.impossible = not (refusal.why.bound_to or not found) and all(
                one.asked and (not one.of_devices or one.for_good) for one in found
            )
            names = [name for name, one in self.reasons.items() if not one.of_devices]
            self._unsure = deque(names if self.impossible else ())
        claims = [record.claim for record in _decided(state, refusal)[1]]
        while self._unsure and self._work(state) < end:
            name = self._unsure.popleft()
            self._asked += 1
            answer = state.devices.allocate(name, state.nodes.labels_of(name), claims)
            if isinstance(answer, tuple) or not answer.for_good:
                self.impossible = False
                self._unsure.clear()


def _decided(state: State, refusal: PodRefusal) -> tuple[PodView, Sequence[ClaimRecord]]:
    """Return the pod and its claims as they were decided."""
    pod = state.pods[refusal.subject]
    return pod, as_decided(state, pod, [state.claims[key] for key in refusal.why.claims])


def ask_all(state: State, refusal: PodRefusal, known: Mapping[str, NodeReasons] = NOTHING) -> Questions:
    """Ask every node in one turn. Costly on many nodes; needed only to report the reasons."""
    questions = Questions(state, refusal)
    questions.ask(state, refusal, known)
    return questions


def _reasons(
    state: State, pod: PodView, check: PodCheck, claims: Sequence[ClaimRecord], name: str, *, version: Hashable
) -> NodeReasons | None:
    # The pod's own use of nodes does not count against it, but does against other pods of its shape.
    valid_for_others = None if state.nodes.node_of(pod.key) else version
    if reasons := check.closed(name) if pod.node_name else check.reasons(name):
        return NodeReasons(reasons, version=valid_for_others)
    values = tuple(record.claim for record in claims)
    answer = state.devices.allocate(name, state.nodes.labels_of(name), values)
    if isinstance(answer, tuple):
        return None
    return replace(answer, claims=tuple(claim.key for claim in values), version=valid_for_others)


def _named(key: str, reader: PodView) -> str:
    """Return a pod, or ``gang <key>``, by its key, for a reader of another pod."""
    kind, _, gang = key.partition(" ")
    if gang:
        return key if gang.partition("/")[0] == reader.namespace else f"a {kind} in another namespace"
    return f"pod {key}" if key.partition("/")[0] == reader.namespace else "a pod in another namespace"


@dataclass(frozen=True, slots=True)
class _Found:
    generation: int
    at: float
    message: Message


@dataclass(slots=True)
class _Begun:
    """A message that takes several turns to find."""

    readers: Hashable
    """Equal for pods that it holds for (``_readers``)."""
    generation: int
    at: float
    """Time of the last turn."""
    questions: Questions


class MessageFinder:
    """Finds the message why no node takes a pod, and knows the last one about each shape.

    Finding one costs as much as asking every node. A thousand pods of one shape get the same one, with the names of
    their own claims.
    """

    def __init__(self) -> None:
        self._found: BoundedCache[Hashable, _Found] = BoundedCache(_MOST_MESSAGES)
        self._asked = AskedNodes()
        self._begun: _Begun | None = None

    def find(self, state: State, refusal: PodRefusal, now: float) -> tuple[Message, int] | None:
        """Return why no node takes the pod, and the generation of the nodes (``Nodes.generation``) that it is about.

        None if that takes further turns. Ask again then, and about no other shape before.

        Args:
            now: monotonic seconds.
        """
        readers = _readers(refusal)
        known = self._found.get(readers)
        if known is None or (known.generation != state.nodes.generation and now - known.at >= FRESH_SECONDS):
            known = self._find(state, refusal, now, readers)
        return (known.message, known.generation) if known else None

    def _find(self, state: State, refusal: PodRefusal, now: float, readers: Hashable) -> _Found | None:
        begun, self._begun = self._begun, None
        if begun is None or begun.readers != readers or now - begun.at >= _ABANDONED_SECONDS:
            begun = _Begun(readers, state.nodes.generation, now, Questions(state, refusal, MOST_WORK))
        questions = begun.questions
        if not questions.ask(state, refusal, self._asked.reasons_of(refusal.why.shape), TURN_WORK):
            begun.at, self._begun = now, begun
            return None
        self._asked.remember(refusal.why.shape, questions.reasons)
        message = message_of(
            questions.reasons,
            refusal.why.claims,
            bound_to=refusal.why.bound_to,
            impossible=questions.impossible,
            no_nodes=not state.nodes,
            tied_by=refusal.why.tied_by,
        )
        found = self._found[readers] = _Found(begun.generation, now, message)
        return found


def _readers(refusal: PodRefusal) -> Hashable:
    """Return what is equal for pods that may all read one message."""
    held = refusal.why.held
    # For whom a node is held back is named in that one's namespace alone (``Questions``).
    return (refusal.why.group, refusal.subject.partition("/")[0], *sorted(held.items())) if held else refusal.why.group
