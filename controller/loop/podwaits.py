"""The pods that wait: wakes them, has their reasons reported, and holds nodes back for them."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from controller.loop.helps import HELPS
from controller.loop.nodewishes import NodeWishes
from controller.loop.preempting import Preempting
from controller.loop.shared import Shared
from controller.loop.worker import Worker
from controller.quotas import Quota
from controller.reconcile import (
    LAST_RESORT_SECONDS,
    NodeRestrictions,
    Reason,
    Unallocatable,
    Wait,
    could_take,
    depends_on_other_pods,
    fits_without_later_pods,
    latest_end_of_new,
    node_to_hold,
)
from controller.reporting import Explanations, Reporter
from controller.state import Changes, PodView, State, UnreadableObject
from controller.waiting import (
    HeldDomain,
    HeldDomains,
    HeldNode,
    HeldNodes,
    Help,
    HoldLimits,
    NodesBeingRetried,
    ParkedPods,
    Pauses,
    Rank,
    rank_of,
    rank_of_gang,
)
from controller.writing import WriteResult
from driver.kube.api import Conflict
from driver.settings import HoldSettings

_REPORT_AGAIN_SECONDS: Final = 10.0
_CHANGED_SECONDS: Final = 1.0  # by then, the watch has most likely told of the change that a report met
_MOST_REPORTED: Final = 100
"""Most unreadable objects, or quotas, that are reported on the object at once; metrics count all."""
_TERMS: Final = "terms of other pods"
"""Stands beside names of nodes for a change of pods that affinity and spread look at."""
_QUOTAS: Final = "quotas of the namespace"
"""Stands beside names of nodes for room in the quotas of the pod's namespace."""
_OTHER_DEVICES_SECONDS: Final = LAST_RESORT_SECONDS
"""Time after which the first pod that waits for a quota is tried without a change: it might get other devices than
before, such as those of a later alternative, which take less."""


@dataclass(slots=True)
class _Waiting:
    """A pod that waits."""

    since: float
    """Time from which the pod waits (monotonic seconds)."""
    reason: Reason
    answer: Unallocatable | None = None
    """The last answer if the pod waits for a node."""
    reported_at: int = -1
    """``Nodes.generation`` for which the words were found."""


class PodWaits(Worker):
    """Pods that wait. None is tried again without a change, but for the last resort of pods that were refused."""

    def __init__(self, shared: Shared, preempting: Preempting, identity: str):
        self._state = shared.state
        self._queue = shared.queue
        self._memory = shared.memory
        self._clock = shared.clock
        self._log = shared.log
        self.reporter = self._reporter = Reporter(
            shared.writes, shared.clock, shared.state, shared.log, author=self, identity=identity
        )
        self.limits = self._limits = limits_of(shared.settings.hold)
        self.wishes = self._wishes = NodeWishes(shared.state, shared.settings.autoscaling)
        self._look_for_wishes = False
        """True if anything may have changed since the pods that ask for a node were looked at."""
        self._wishes_as_of: object = None
        """``NodeWishes.version`` then; None if a hold has ended since."""
        self._preempting = preempting
        self._waiting: dict[str, _Waiting] = {}
        self._unexplained: dict[str, dict[str, None]] = {}
        """Pods whose reasons are still to be found and reported, by namespace; the first namespace has its turn."""
        self._parked = ParkedPods()
        self._helping: dict[str, dict[str, None]] = {}
        """The nodes whose changes may help a pod, "" for all of them, until it is looked at."""
        self._unheld: dict[str, None] = {}
        """Pods for which no more nodes could be held back; they are tried again when a hold ends."""
        self._held = HeldNodes()
        self.domains = HeldDomains()
        self.pauses = Pauses(self._limits.pause)
        self._explanations = Explanations()
        self.retried = NodesBeingRetried()

    @property
    def pods(self) -> Collection[str]:
        """Keys of the pods that wait."""
        return self._parked

    @property
    def held_nodes(self) -> int:
        """The number of nodes that are held back."""
        return len(self._held) + self.domains.count

    @property
    def held(self) -> Collection[HeldNode]:
        """The holds of nodes for single pods."""
        return self._held.held

    @property
    def most_held(self) -> int:
        """Most nodes that may be held back for gangs at a time, and as many for single pods."""
        with_devices = sum(bool(slot.pools) for slot in self._state.devices.node_slots.values())
        return self._limits.most(with_devices or len(self._state.nodes))

    def restrictions(self, pod: PodView) -> NodeRestrictions:
        """Return the nodes that this pod may not use, or should use last."""
        return NodeRestrictions(self._held_from(pod), retried=self.retried.of_others(pod.key))

    def restrictions_of_gang(self, gang: str) -> NodeRestrictions:
        """Return the nodes that the gang may not use."""
        return NodeRestrictions(self._held_from_gang(gang))

    # Waiting

    def waiting(self) -> Iterator[tuple[str, Reason, float]]:
        """Yield the pods that wait, each with what it waits for and since when it does (monotonic seconds)."""
        return ((key, one.reason, one.since) for key, one in self._waiting.items())

    def wait(self, pod: PodView, wait: Wait, *, event: bool = True, wish: str = "") -> Reason:
        """Let the pod wait for something else than a node of its own; arguments as of ``Reporter.report_wait``."""
        now = self._clock.monotonic()
        if wait.after is not None:
            self._queue.add(("pod", pod.key), now + wait.after)
        if not wait.report:
            self.end(pod.key)
            if wait.reason is not Reason.EVALUATING:
                self._reporter.set_wish(pod, "")
        else:
            self._end_hold(pod.key)
            helps = HELPS.get(wait.reason, Help.OWN)
            self._park(pod, wait.reason, None, helps, wait.group)
            if helps is Help.QUOTA and self._parked.is_first(pod.key, helps):
                gang = self._state.gangs.of(pod.key)
                self._queue.add(("gang", gang) if gang else ("pod", pod.key), now + _OTHER_DEVICES_SECONDS)
            self._report(pod, wait, event, wish or wait.unschedulable)
        return wait.reason

    def wait_in_gang(self, answer: Unallocatable) -> None:
        """Park the pod; when a node can take it, its gang is woken."""
        if pod := self._state.pods.get(answer.pod):
            self._park(pod, answer.reason, answer, Help.NODES)

    def wait_for_node(self, pod: PodView, answer: Unallocatable) -> Reason:
        """Let the pod wait until a node can take it. The reasons are costly to find, so they are found later."""
        now = self._clock.monotonic()
        self._memory.remember(answer, self._state.nodes.generation)
        self._park(pod, answer.reason, answer, Help.NODES)
        if answer.after is not None:
            self._queue.add(("pod", pod.key), now + answer.after)
        self._unexplained.setdefault(pod.namespace, {})[pod.key] = None
        self._hold_node(pod, answer, now)
        return answer.reason

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._clock.monotonic() if self._unexplained or self._look_for_wishes else self._reporter.next_due()

    def work(self) -> bool:
        """Explain to one more pod why it waits, or repeat an Event; return False if nothing is due."""
        return self._explain_next() or self._reporter.remind()

    def written(self, result: WriteResult, _: Changes) -> None:
        """Take in the result of a report."""
        if not self._reporter.on_result(result):
            key, error = result.sequence.subject[1], result.error
            self._log.warning("condition or event not written", object=key, error=str(error))
            self._report_again(key, error)

    def _explain_next(self) -> bool:
        """Report to one more pod why no node takes it, or go on finding that; return False if there is no such pod.

        Namespaces take turns: finding the reasons may cost more than deciding.
        """
        if self._look_for_wishes and not self._unexplained:
            self._look_for_wishes, before, self._wishes_as_of = False, self._wishes_as_of, self._wishes.version
            if self._wishes_as_of != before:
                self._look_again()
        if not self._unexplained:
            return False
        namespace, key = next((name, next(iter(pods))) for name, pods in self._unexplained.items())
        answer, pod = self._waiting[key].answer, self._state.pods.get(key)
        if pod is None or answer is None or self._explain(pod, answer, self._clock.monotonic()):
            others = self._unexplained.pop(namespace)
            del others[key]
            if others:
                self._unexplained[namespace] = others
        return True

    def _look_again(self) -> None:
        """Look at all pods that wait for a node again: others may ask for one, because nodes or devices changed."""
        for key, waiting in self._waiting.items():
            if waiting.answer is None:
                continue
            if gang := self._state.gangs.of(key):
                self._queue.add(("gang", gang), self._clock.monotonic())
            else:
                self._unexplained.setdefault(key.partition("/")[0], {})[key] = None

    def _explain(self, pod: PodView, answer: Unallocatable, now: float) -> bool:
        """Report why no node takes the pod, if that is news; return False if finding that takes further turns."""
        waiting, generation = self._waiting[pod.key], self._state.nodes.generation
        shown = next(
            (reason for reason in (answer.reason, Reason.IMPOSSIBLE) if self._reporter.shows(pod, reason)), None
        )
        if shown and (reword := self._reporter.reword_at(pod, shown)) is not None and now < reword:
            self._reporter.keep_said(pod, shown)
            self._reporter.set_wish(pod, self._wishes.of(answer, partial(self._held_from, pod)))
            if waiting.reported_at != generation:
                self._queue.add(("pod", pod.key), reword)
            return True
        found = self._explanations.wait(self._state, answer, self._memory, now)
        if found is None:
            return False
        wait, waiting.reported_at = found
        self._reporter.report_wait(pod, wait, wish=self._wishes.of(answer, partial(self._held_from, pod)))
        if waiting.reported_at != generation and (reword := self._reporter.reword_at(pod, wait.reason)) is not None:
            self._queue.add(("pod", pod.key), reword)
        return True

    def _report(self, pod: PodView, wait: Wait, event: bool, wish: str) -> None:
        reword = self._reporter.report_wait(pod, wait, event=event, wish=wish)
        if reword is not None:
            self._queue.add(("pod", pod.key), reword)

    def _report_again(self, pod: str, error: Exception | None) -> None:
        """Look at the pod once more after a report could not be written; soon, if the pod was another one by then."""
        self._reporter.forget(pod)
        if pod in self._parked:
            pause = _CHANGED_SECONDS if isinstance(error, Conflict) else _REPORT_AGAIN_SECONDS
            self._queue.add(("pod", pod), self._clock.monotonic() + pause)

    def _park(
        self, pod: PodView, reason: Reason, answer: Unallocatable | None, by: Help, together: Hashable = None
    ) -> None:
        waiting = self._waiting.setdefault(pod.key, _Waiting(self._clock.monotonic(), reason))
        waiting.answer, waiting.reason = answer, reason
        # A node that is held back is closed to one pod and open to another that ends sooner.
        group = (answer.group, pod.limit_seconds) if answer else (pod.namespace, together or pod.key)
        self._try_soon(self._parked.park(rank_of(self._state, pod), by, group))

    def end(self, pod: str, *, placed: bool = False) -> None:
        """End the pod's wait.

        Args:
            placed: whether it has a node, so that its hold has served its purpose.
        """
        self._waiting.pop(pod, None)
        self._reporter.stop_reminding(pod)
        self._drop_unexplained(pod)
        self._unheld.pop(pod, None)
        self._helping.pop(pod, None)
        self._try_soon(self._parked.leave(pod))
        self._end_hold(pod, placed=placed)

    def _drop_unexplained(self, pod: str) -> None:
        namespace = pod.partition("/")[0]
        pods = self._unexplained.get(namespace, {})
        pods.pop(pod, None)
        if not pods:
            self._unexplained.pop(namespace, None)

    def settle(self, pod: str) -> None:
        """Forget the pod, which is bound, has ended or is gone."""
        self.end(pod)
        self._reporter.forget(pod)
        self._reporter.end_wish(pod)
        self.retried.settled(pod)

    def _try_soon(self, pod: str | None) -> None:
        if pod is not None:
            # A member is as urgent as its gang.
            gang = self._state.gangs.of(pod)
            self._queue.add(("gang", gang) if gang else ("pod", pod), self._clock.monotonic())

    # Waking

    def restore(self) -> None:
        """Report what cannot be understood, and look at all pods that ask for a node."""
        self._report_faults(self._state.unreadable.of(), [*self._state.quotas.invalid])
        self._look_for_wishes = self._wishes.enabled

    def note(self, changes: Changes) -> None:
        """Have those pods tried that the changes can help, and those for which a changed node is held back."""
        self._report_faults(changes.unreadable, changes.invalid_quotas)
        self._wake_on([*changes.favoured, *([_TERMS] if changes.terms else [])])
        for namespace in changes.quotas:
            self._have_looked_at(self._parked.woken_by_quota(namespace), [_QUOTAS])
        for node in changes.favoured:
            for pod in self._held.holders(node):
                if not self._serves(pod):
                    self._try_soon(pod)
        self._look_for_wishes |= self._wishes.enabled
        for gang in self.domains.on({**changes.favoured, **changes.ends}):
            self._queue.add(("gang", gang), self._clock.monotonic())

    def _report_faults(self, unreadable: Sequence[UnreadableObject], quotas: Sequence[Quota]) -> None:
        for found in unreadable[:_MOST_REPORTED]:
            self._reporter.report_unreadable(found)
        for quota in quotas[:_MOST_REPORTED]:
            self._reporter.report_invalid_quota(quota)

    def _wake_on(self, changed: Collection[str]) -> None:
        """Have the pods looked at that changes of these nodes may help, each in the turn of its namespace."""
        self._have_looked_at(self._parked.woken(changed), changed)

    def _have_looked_at(self, pods: Collection[str], changed: Collection[str]) -> None:
        for pod in pods:
            self._helping.setdefault(pod, {}).update(dict.fromkeys(changed))
            self._queue.add(("wake", pod), self._clock.monotonic())

    def look(self, pod: str, _: Changes) -> None:
        """Have the pod tried if the changes since it was looked at last can help it."""
        changed = self._helping.pop(pod, {})
        if pod not in self._parked:
            return
        is_open = "" in changed or any(node != _TERMS and self._could_use(pod, node) for node in changed)
        if is_open or (_TERMS in changed and self._depends_on_others(pod)):
            self._try_soon(pod)

    def _could_use(self, pod: str, node: str) -> bool:
        answer, view = self._waiting[pod].answer, self._state.pods.get(pod)
        if answer is None or view is None:
            return True
        if node == _QUOTAS:
            return False
        if node in self._held_from(view):
            return False
        party, priority = self._preempting.party_of(view)
        with self._state.rooms.open_to(party, priority):
            return could_take(self._state, answer, node) or self._preempting.could_make_room(answer, node, priority)

    def _depends_on_others(self, key: str) -> bool:
        pod = self._state.pods.get(key)
        return pod is None or depends_on_other_pods(self._state, pod)

    # Holding nodes back

    def _hold_node(self, pod: PodView, answer: Unallocatable, now: float) -> None:
        """Hold a node back for the pod if it has waited long, or end the hold if the node cannot take the pod."""
        rank, held = rank_of(self._state, pod), self._held.of(pod.key)
        if held is not None and now < held.ends and self._serves(pod.key):
            self._queue.add(("pod", pod.key), held.ends)
            return
        self._end_hold(pod.key)
        if not self._limits.enabled or not self._parked.is_first(pod.key):
            return
        due, resting = self._waiting[pod.key].since + self._limits.after, self.pauses.nodes(rank, now)
        if now < due or (due := self.pauses.of_namespace(rank, now) or 0):
            self._queue.add(("pod", pod.key), due)
        elif self._held.is_full(pod.namespace, self.most_held):
            self._unheld[pod.key] = None
        elif found := node_to_hold(self._state, answer, _later_than(self._state, rank), resting):
            ends = now + self._limits.longest
            self._held.hold(HeldNode(rank, found, ends))
            self._queue.add(("pod", pod.key), ends)
            self._log.info("node held back", pod=pod.key, node=found, seconds=self._limits.longest)
        elif resting:
            self._queue.add(("pod", pod.key), min(resting.values()))

    def _held_from(self, pod: PodView) -> Mapping[str, str]:
        """Return the nodes that are held back for pods that come before this one, which may be bound already."""
        if not self.held_nodes:
            return {}
        if gang := self._state.gangs.of(pod.key):
            return self._held_from_gang(gang)
        return self._held_after(rank_of(self._state, pod), [pod])

    def _held_from_gang(self, gang: str) -> Mapping[str, str]:
        if not self.held_nodes:
            return {}
        members = [self._state.pods[key] for key in self._state.gangs.members(gang)]
        return self._held_after(rank_of_gang(self._state, members), members, gang) if members else {}

    def _held_after(self, rank: Rank, pods: Collection[PodView], gang: str = "") -> Mapping[str, str]:
        ends = latest_end_of_new(pods, self._clock.monotonic())
        return {**self.domains.from_pod(rank, ends, gang), **self._held.from_pod(rank)}

    def _serves(self, key: str) -> bool:
        """Return whether the node held back for the pod would fit once later pods end."""
        held, pod = self._held.of(key), self._state.pods.get(key)
        answer = self._waiting[key].answer if key in self._waiting else None
        if held is None or pod is None or answer is None:
            return False
        return fits_without_later_pods(
            self._state, answer, held.node, _later_than(self._state, rank_of(self._state, pod))
        )

    def hold_domain(self, held: HeldDomain, *, displaces: bool = True) -> bool:
        """Hold nodes back for a gang; return False if too many are held back for gangs that come first.

        Args:
            displaces: whether holds of gangs that come after it may end for it.
        """
        known = self.domains.of(held.gang)
        if held == known:
            return True
        displaced = self.domains.displaced(held, self.most_held)
        if displaced is None or (displaced and not displaces):
            return False
        for gang in displaced:
            self.end_domain(gang, placed=True)
        self.domains.hold(held)
        if known is None or known.nodes != held.nodes:
            self._log.info("nodes held back", gang=held.gang, nodes=sorted(held.nodes), seconds=self._limits.longest)
        elif held.starts is not None:
            # Pods that end before may use the nodes.
            self._wake_on(held.nodes)
        return True

    def end_domain(self, gang: str, *, placed: bool = False) -> None:
        """End the hold of the gang; there is a pause unless the gang was placed."""
        held = self.domains.of(gang)
        if held is None:
            return
        self.domains.end(gang)
        if not placed:
            self._pause(held.rank, held.nodes, held.ends)
        # Nobody asks for a new node who could use one that is held back.
        self._wishes_as_of, self._look_for_wishes = None, self._wishes.enabled
        self._log.info("nodes held back no longer", gang=gang, nodes=sorted(held.nodes), placed=placed)
        self._wake_on(held.nodes)

    def _end_hold(self, pod: str, *, placed: bool = False) -> None:
        held = self._held.of(pod)
        if held is None:
            return
        self._held.end(pod)
        if not placed:
            self._pause(held.rank, [held.node], held.ends)
        self._wishes_as_of = None
        self._log.info("node held back no longer", pod=pod, node=held.node, placed=placed)
        opened = Changes(favoured={held.node: None})
        self._preempting.note(opened)
        self.note(opened)
        unheld, self._unheld = self._unheld, {}
        for other in unheld:
            self._try_soon(other)

    def _pause(self, rank: Rank, nodes: Collection[str], ends: float) -> None:
        now = self._clock.monotonic()
        self.pauses.ended(rank, nodes, now, 1 - (ends - now) / self._limits.longest)


def limits_of(hold: HoldSettings) -> HoldLimits:
    """Return the limits of holds that the settings say."""
    return HoldLimits(
        enabled=hold.enabled,
        after=hold.after_seconds,
        longest=hold.for_seconds,
        pause=hold.pause_seconds,
        share=hold.share,
    )


def _later_than(state: State, rank: Rank) -> Callable[[PodView], bool]:
    return lambda pod: rank_of(state, pod) > rank
