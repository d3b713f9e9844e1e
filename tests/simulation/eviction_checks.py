"""Nobody is evicted in vain, for a pod that has no higher priority, or against a budget."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from driver.kube.api import PODS, RESOURCE_SLICES, Api, ApiCall, Object
from driver.kube.decorator import WriteDecorator
from driver.kube.objects import is_deleting, is_terminal, name_key
from driver.names import Names
from simulation.kubernetes.preemption import priority_of
from tests.simulation.eviction_webhooks import GuardedEvictions, Webhook, Webhooks

T = TypeVar("T")
PREEMPTING: Final = "Preempting"
GANG: Final = "gang"
"""Label of pods that belong together."""
LEAST: Final = "least"
"""Label with the number of them that have to start together."""
MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of static pods, which no eviction ends."""


@dataclass(slots=True)
class Eviction:
    """A pod that was told to end, and the pods for which it may have been."""

    victim: str
    nodes: frozenset[str]
    """Its node. A gang goes as a whole, so for a member, the nodes of all."""
    priority: int
    preemptors: Mapping[str, tuple[str, str]]
    """Namespace and name by uid; all members of a gang."""
    wanted: frozenset[str]
    """The nodes for which the preemptors are nominated, or were: each for one member of a gang."""
    theirs: int
    """The priority of the preemptors."""
    there: frozenset[str]
    """Pods (uids) that had a place on all these nodes then, or when a node was added to them."""
    slices: frozenset[str]
    """The slices (uids) of all these nodes."""
    at: float
    """When that was (monotonic seconds)."""
    served: bool = False
    """Whether one of them got a place on the nodes, or ended, or one of higher priority took the place of one. Also
    whether the devices of a node went away meanwhile, so that there was no place any more."""


@dataclass(slots=True)
class EvictionChecks:
    """The evictions of a history so far.

    Attributes:
        webhooks: those that keep pods from being evicted.
        found: what was wrong at the moment of an eviction.
    """

    reader: Api
    names: Names
    webhooks: Webhooks
    found: list[str] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    recorded: dict[str, Object] = field(default_factory=dict)
    """Pods, by uid, as they were when a controller wrote last that others are evicted for them."""

    def note(self, victim: Object) -> None:
        """Take in that a pod is evicted that was not ending before."""
        priority, pods = priority_of(victim), {pod["metadata"]["uid"]: pod for pod in self._pods()}
        nodes = frozenset(pod["spec"].get("nodeName") or "" for pod in [victim, *_mates(victim, pods.values())])
        # A pod may be deleted after it was written or read, and before the eviction: one call cannot look at two pods.
        just_gone = [pod for uid, pod in self.recorded.items() if uid not in pods]
        every = [*pods.values(), *just_gone]
        told = [pod for pod in every if self._is_preempting(pod) and _nominated(pod) in nodes]
        waiting = [pod for pod in told if priority_of(pod) > priority and self._is_gang_told(pod, every)]
        name = "/".join(name_key(victim))
        if MIRROR in (victim["metadata"].get("annotations") or {}):
            self.found.append(f"{name} is a static pod, and is evicted")
        if not waiting:
            self.found.append(f"{name} is evicted from {sorted(nodes)} for nobody of higher priority who says so")
            return
        served = [mate for pod in waiting for mate in (pod, *_mates(pod, every))]
        wanted = frozenset(map(_nominated, served)) - {""}
        self.evictions.append(
            Eviction(
                victim=name,
                nodes=nodes,
                priority=priority,
                preemptors={pod["metadata"]["uid"]: name_key(pod) for pod in served},
                wanted=wanted,
                theirs=max(map(priority_of, waiting)),
                there=frozenset(uid for uid, pod in pods.items() if self._has_place(pod, nodes | wanted)),
                slices=frozenset(uid for uid, node in self._slices().items() if node in nodes | wanted),
                at=self.webhooks.clock.monotonic(),
            )
        )

    def _is_gang_told(self, preemptor: Object, pods: Iterable[Object]) -> bool:
        """Nobody is evicted for a part of a gang: as many members as have to start say for which node it is."""
        least = int(preemptor["metadata"]["labels"].get(LEAST) or 1)
        return sum(map(self._is_preempting, (preemptor, *_mates(preemptor, pods)))) >= least

    def stayed(self, pod: Object, webhook: Webhook) -> None:
        """Take in that a webhook has kept a pod from being evicted: others may have gone for the same preemptors.

        Nobody could know that before, if the webhook is newer than they are, or passes those that are only tried.
        """
        node = pod["spec"].get("nodeName")
        for one in self.evictions:
            if node in one.nodes | one.wanted and (not webhook.tries or webhook.since >= one.at):
                one.served = True

    def wrote(self, pod: Object) -> None:
        """Take in that a controller has written a pod."""
        if self._is_preempting(pod):
            self.recorded[pod["metadata"]["uid"]] = pod
            # It may be for another node than before; who gets a place there from now on may take it from this pod.
            self.look()

    def look(self) -> None:
        """Find out which evictions have served their purpose by now. Called after every change."""
        unserved = [one for one in self.evictions if not one.served]
        if not unserved:
            return
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods()}
        slices = self._slices()
        for one in unserved:
            if not one.slices <= slices.keys():
                one.served = True
                continue
            mine = [pods.get(uid) for uid in one.preemptors]
            # A plan may be made anew, with other nodes.
            if more := {_nominated(pod) for pod in mine if pod is not None} - one.wanted - {""}:
                one.wanted |= more
                one.there |= {uid for uid, pod in pods.items() if self._has_place(pod, frozenset(more))}
                one.slices |= {uid for uid, node in slices.items() if node in more}
            one.served = any(pod is None or is_deleting(pod) or is_terminal(pod) for pod in mine) or any(
                uid not in one.there and self._takes_place(pod, one) for uid, pod in pods.items()
            )

    def _takes_place(self, pod: Object, one: Eviction) -> bool:
        if priority_of(pod) > one.priority and self._has_place(pod, one.nodes):
            return True
        # Without the place of one member, a gang does not start.
        return bool(priority_of(pod) > one.theirs and self._has_place(pod, one.wanted))

    def in_vain(self) -> Iterator[str]:
        """The evictions that served nobody, once the cluster has settled."""
        self.look()
        for one in self.evictions:
            if not one.served:
                nodes, preemptors = sorted(one.nodes), sorted(one.preemptors.values())
                yield f"{one.victim} was evicted from {nodes} in vain, for {preemptors}"

    def _slices(self) -> dict[str, str]:
        """The node of each slice, by uid."""
        slices = self.reader.list(RESOURCE_SLICES, limit=0).items
        return {part["metadata"]["uid"]: str(part["spec"].get("nodeName")) for part in slices}

    def _pods(self) -> list[Object]:
        return list(self.reader.list(PODS, limit=0).items)

    def _is_preempting(self, pod: Object) -> bool:
        conditions = pod["status"].get("conditions") or ()
        ours = [one for one in conditions if one["type"] == f"{self.names.driver}/Allocated"]
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        return self.names.gate in gates and any(one.get("reason") == PREEMPTING for one in ours)

    def _has_place(self, pod: Object, nodes: frozenset[str]) -> bool:
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        return self.names.gate not in gates and bool(nodes & {pod["spec"].get("nodeName"), _nominated(pod)})


class EvictionWatch(WriteDecorator):
    """The API as controllers have it; notes their evictions."""

    def __init__(self, api: Api, checks: EvictionChecks):
        super().__init__(GuardedEvictions(api, checks.reader, checks.webhooks, checks.stayed))
        self._checks = checks

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer to the call."""
        before = self._victim(call) if call.verb == "evict" and not call.dry_run else None
        answer = proceed()
        if before is not None and not is_deleting(before) and self._ends(before, call):
            self._checks.note(before)
        if call.resource == PODS and call.verb == "patch" and isinstance(answer, dict):
            self._checks.wrote(answer)
        return answer

    def _ends(self, before: Object, call: ApiCall) -> bool:
        after = self._victim(call)
        return after is None or after["metadata"]["uid"] != before["metadata"]["uid"] or is_deleting(after)

    def _victim(self, call: ApiCall) -> Any:
        found = self._checks.reader.list(PODS, namespace=call.namespace, limit=0).items
        return next((pod for pod in found if pod["metadata"]["name"] == call.name), None)


def _mates(pod: Object, pods: Iterable[Object]) -> list[Object]:
    """The other members of the pod's gang."""
    gang, uid = pod["metadata"].get("labels", {}).get(GANG), pod["metadata"]["uid"]
    same = (one for one in pods if gang and one["metadata"].get("labels", {}).get(GANG) == gang)
    return [one for one in same if one["metadata"]["uid"] != uid]


def _nominated(pod: Object) -> str:
    return str(pod["status"].get("nominatedNodeName") or "")
