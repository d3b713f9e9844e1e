"""What must hold for every write of a program at the moment when the API carries it out.

The other invariants see the cluster between two steps. A wrong write may be gone by then: overtaken, or mended.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from driver.clock import Clock
from driver.kube.api import (
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Api,
    ApiCall,
    Invalid,
    NotFound,
    Object,
    Resource,
)
from driver.kube.decorator import WriteDecorator
from driver.kube.objects import claim_name, controller_of, is_deleting, is_terminal, name_key
from driver.limits import MAX_EVENT_MESSAGE
from driver.names import CONTROLLER_NAMESPACE, Names
from driver.quantity import Quantity
from driver.wire import allocation_from
from simulation.kubernetes.other_drivers import is_for_driver
from simulation.kubernetes.preemption import priority_of
from simulation.kubernetes.scheduler import requested
from tests.simulation.device_status_checks import device_status_problems
from tests.simulation.gang_write_checks import GangWriteChecks
from tests.simulation.node_write_checks import node_problems
from tests.simulation.quota_write_checks import QuotaWriteChecks
from tests.simulation.said_checks import said_problems
from tests.simulation.template_write_checks import template_problems

T = TypeVar("T")

MAX_CONDITION_MESSAGE: Final = 32768
"""Characters of a condition's message (metav1.Condition; core/v1 has no limit of its own)."""
_COMPARED: Final = (RESOURCE_CLAIMS, NODES, RESOURCE_CLAIM_TEMPLATES)
"""The kinds whose objects are read before a write."""
_CLAIM_OF_POD: Final = re.compile(r"\bclaim (\S+), request ")
"""How a message names a claim of the pod that it is about."""
_MEMBER: Final = re.compile(r"\bgang .*\bpod [^/\s]+/(\S+): 0 of ")
"""How the message of a gang names a member that no node takes."""


def _entries(pod: Object) -> Sequence[Object]:
    entries: Sequence[Object] = pod["spec"].get("resourceClaims") or []
    return entries


class WriteChecks(WriteDecorator):
    """The API as one process has it, between the admission policies and the store.

    Args:
        reader: reads objects for the checks.
        clock: of the API server.
        found: what is wrong is added here.
        controller: whether the process is a controller, whose writes have to make sense; others' must only be valid.
        says_devices: whether it has to say which cards a claim gets.
    """

    def __init__(
        self,
        api: Api,
        reader: Api,
        names: Names,
        clock: Clock,
        found: list[str],
        *,
        controller: bool,
        says_devices: bool = True,
    ):
        super().__init__(api)
        self._reader = reader
        self._names = names
        self._found = found
        self._controller = controller
        self._says_devices = says_devices
        self._gangs = GangWriteChecks(reader, names, self._read, clock)
        self._quotas = QuotaWriteChecks(reader, names, clock)
        self._writes = 0
        self._let_go: dict[str, tuple[str, str, int]] = {}
        """Namespace and name of the pods that this process let go, and the number of that write; by uid."""
        self._chosen: dict[str, int] = {}
        """The number of this process' first write for an allocation of a claim, by the claim's uid."""
        self._quiet: dict[str, int] = {}
        """The versions of the pods that asked for no node after this process' last write to them; by uid."""

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer; what is wrong with a write is noted."""
        if not call.is_write or call.resource == LEASES:
            return proceed()
        self._writes += 1
        before = self._read(call.resource, call.namespace, call.name) if call.resource in _COMPARED else None
        try:
            answer = proceed()
        except Invalid as error:
            if not self._meets_another_object(call):
                self._found.append(f"{call} {call.namespace}/{call.name} is not valid: {error}")
            raise
        if call.resource == PODS and isinstance(answer, dict) and (version := _version(answer)):
            self._quiet[answer["metadata"]["uid"]] = 0 if asks_for_node(answer) else version
        if self._controller:
            self._found += [f"{call} {call.namespace}/{call.name}: {p}" for p in self._problems(call, before, answer)]
        return answer

    def _meets_another_object(self, call: ApiCall) -> bool:
        """Whether the write was meant for an object that has changed, or that another one has replaced."""
        if isinstance(call.body, list):
            return True
        uid = ((call.body or {}).get("metadata") or {}).get("uid")
        current = self._read(call.resource, call.namespace, call.name)
        return uid is not None and (current is None or current["metadata"]["uid"] != uid)

    def _problems(self, call: ApiCall, before: Object | None, answer: Any) -> Iterator[str]:
        match call.resource:
            case _ if call.resource == EVENTS:
                yield from _event_problems(answer)
                yield from said_problems(answer.get("message") or "", call.namespace, self._namespaces())
            case _ if call.resource == NODES:
                yield from node_problems(before, answer, self._names)
            case _ if call.resource == RESOURCE_CLAIM_TEMPLATES:
                yield from template_problems(before, answer, self._names)
            case _ if call.resource == PODS and call.verb == "patch":
                yield from self._pod_problems(call, answer)
            case _ if call.resource == RESOURCE_CLAIMS and call.verb == "patch" and not call.subresource:
                # This is the finalizer. The devices are chosen before it, and may be allocated much later.
                self._chosen.setdefault(answer["metadata"]["uid"], self._writes)
            case _ if call.resource == RESOURCE_CLAIMS and call.subresource == "status" and before is not None:
                yield from self._claim_problems(before, answer)
                yield from self._gangs.claim_problems(_allocation(before), answer)

    # Pods

    def _pod_problems(self, call: ApiCall, pod: Object) -> Iterator[str]:
        if isinstance(call.body, list):
            yield from self._lacking(pod)
            yield from self._overcommitted(pod, self._where(pod))
            yield from self._gangs.start_problems(pod)
            return
        status = call.body.get("status") or {}
        if node := status.get("nominatedNodeName"):
            # While others are evicted for it, it has no devices yet.
            room = any(one.get("reason") == "Preempting" for one in status.get("conditions") or [])
            yield from () if room else self._lacking(pod)
            elsewhere = {where for _, _, where in self._devices_of(pod)} - {"", node}
            if elsewhere:
                yield f"the pod is nominated for {node}, but its devices are on {sorted(elsewhere)}"
        if any(condition.get("reason") == "Unschedulable" for condition in status.get("conditions") or []):
            yield from self._wish_problems(pod)
        namespace, name = name_key(pod)
        for condition in status.get("conditions") or []:
            message = condition.get("message") or ""
            # All members of a gang are told the same of one that no node takes.
            told_of = [pod, *self._members_in(message, namespace)]
            own = {f"{namespace}/{claim_name(it, entry)}" for it in told_of for entry in _entries(it)}
            yield from said_problems(message, namespace, self._namespaces())
            if len(message) > MAX_CONDITION_MESSAGE:
                yield f"a message has {len(message)} characters"
            # A claim that was deleted, and created from the template again, had such a name before.
            before = tuple(f"{namespace}/{it}-" for it in (name, *_MEMBER.findall(message)))
            named = {key for key in _CLAIM_OF_POD.findall(message) if not key.startswith(before)}
            if strangers := sorted(named - own):
                yield f"the message names claims that are not the pod's: {strangers}: {message}"

    def _members_in(self, message: str, namespace: str) -> Iterator[Object]:
        """The pods whose own reasons a message tells."""
        for name in _MEMBER.findall(message):
            if pod := self._read(PODS, namespace, name):
                yield pod

    def _wish_problems(self, pod: Object) -> Iterator[str]:
        """A pod that asks autoscalers for a node waits at our gate alone, and holds nothing."""
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]
        if gates != [self._names.gate]:
            yield f"the pod asks autoscalers for a node, with the gates {gates}"
        if held := [name for name, claim, _ in self._devices_of(pod) if _allocation(claim or {})]:
            yield f"the pod asks autoscalers for a node, but its claims {held} are allocated"

    def _devices_of(self, pod: Object) -> list[tuple[str, Object | None, str]]:
        """Name, object and node of each claim of the pod that is ours."""
        namespace, found = pod["metadata"]["namespace"], []
        for entry in pod["spec"].get("resourceClaims") or []:
            name = claim_name(pod, entry)
            claim = self._read(RESOURCE_CLAIMS, namespace, name) if name else None
            if is_for_driver(claim or self._lost(namespace, entry), self._names.driver):
                found.append((name, claim, _node_of(claim)))
        return found

    def _lost(self, namespace: str, entry: Object) -> Object:
        """What a claim that does not exist was for, as far as its template says."""
        template = self._read(RESOURCE_CLAIM_TEMPLATES, namespace, entry.get("resourceClaimTemplateName") or "")
        return {"spec": template["spec"]["spec"] if template else {}}

    def _where(self, pod: Object) -> str:
        """The node of the pod or of its devices; "" if there is none. Without its gate it may still be moved."""
        return pod["spec"].get("nodeName") or next((node for _, _, node in self._devices_of(pod) if node), "")

    def _lacking(self, pod: Object) -> Iterator[str]:
        """A pod that is let go, or nominated, has all of its devices.

        kube-scheduler takes the reservation from a pod that it has bound if the answer to the binding is lost, and
        resource-claim-controller reserves the claim again. So that says nothing about the controller.
        """
        if is_deleting(pod):
            return
        uid = pod["metadata"]["uid"]
        for name, claim, _ in self._devices_of(pod):
            status = (claim or {}).get("status") or {}
            if status.get("allocation") is None:
                yield f"the pod is let go, but its claim {name} is not allocated"
            elif not pod["spec"].get("nodeName") and uid not in [it["uid"] for it in status.get("reservedFor") or []]:
                yield f"the pod is let go, but its claim {name} is not reserved for it"

    def _overcommitted(self, pod: Object, node: str) -> Iterator[str]:
        """What this process lets go fits on the node beside what it let go there before.

        Pods of lower priority do not count: kube-scheduler may evict them for the pod. Nor do pods of higher priority
        that were let go after the pod's devices were chosen: they were decided without regard to it.
        """
        host = self._read(NODES, "", node) if node else None
        allocatable = ((host or {}).get("status") or {}).get("allocatable") or {}
        if "cpu" not in allocatable:
            return
        namespace, name = name_key(pod)
        self._let_go[pod["metadata"]["uid"]] = (namespace, name, self._writes)
        chosen = min((self._chosen.get(c["metadata"]["uid"], 0) for _, c, _ in self._devices_of(pod) if c), default=0)
        beside = []
        for uid, (space, other, let_go) in list(self._let_go.items()):
            current = self._read(PODS, space, other)
            gone = current is None or current["metadata"]["uid"] != uid or is_terminal(current)
            if current is None or gone or self._is_gated(current):
                del self._let_go[uid]
            elif self._where(current) == node and self._may_be_bound(current):
                was_regarded = priority_of(current) > priority_of(pod) and let_go < chosen
                if was_regarded or priority_of(current) == priority_of(pod):
                    beside.append(current)
        used = sum(requested(other, "cpu") for other in beside)
        if used > Quantity.parse(allocatable["cpu"]).nanos:
            yield f"pods that were let go want {used / 1e9} CPUs of node {node}, which has {allocatable['cpu']}"

    def _may_be_bound(self, pod: Object) -> bool:
        """kube-scheduler refuses a pod that lacks devices, or with a claim that is being deleted."""
        return not any(self._lacking(pod)) and not any(
            claim and is_deleting(claim) for _, claim, _ in self._devices_of(pod)
        )

    # Claims. The API server itself refuses to replace an allocation, and to allocate a claim that is being deleted.

    def _claim_problems(self, before: Object, after: Object) -> Iterator[str]:
        had, has = _allocation(before), _allocation(after)
        if has and not had:
            self._chosen.setdefault(after["metadata"]["uid"], self._writes)
            yield from self._new_allocation_problems(after)
            yield from self._quotas.problems(after)
        elif had and not has:
            self._chosen.pop(after["metadata"]["uid"], None)
        lost = self._consumers_that_may_run(before) - set(_consumers(after))
        if had and not has and lost:
            yield f"the allocation is cleared, but reserved for pods {sorted(lost)}"
        added = set(_consumers(after)) - set(_consumers(before))
        if added and lost:
            yield f"the reservation for {sorted(added)} takes the place of that for {sorted(lost)}"

    def _consumers_that_may_run(self, claim: Object) -> set[str]:
        """Uids of pods that the claim is reserved for and that kube-scheduler may bind, or has bound where it is."""
        raw, found = _allocation(claim), set()
        node = allocation_from(raw).node_name if raw else ""
        for uid, name in _consumers(claim).items():
            pod = self._read(PODS, claim["metadata"]["namespace"], name)
            if pod is None or pod["metadata"]["uid"] != uid or not self._may_run(pod):
                continue
            if not node or pod["spec"].get("nodeName") in (None, "", node):
                found.add(uid)
        return found

    def _new_allocation_problems(self, claim: Object) -> Iterator[str]:
        for name in _consumers(claim).values():
            pod = self._read(PODS, claim["metadata"]["namespace"], name)
            if pod is None or not self._is_gated(pod) or not asks_for_node(pod):
                continue
            # What a backup brings back of a pod is not known to a process that may not read pods since then.
            if _version(pod) >= self._quiet.get(pod["metadata"]["uid"], 0):
                yield f"the claim is allocated, but pod {name} still asks autoscalers for a node"
        owner = controller_of(claim, "Pod")
        for consumer in claim["status"].get("reservedFor") or []:
            if owner and owner["uid"] != consumer["uid"]:
                yield f"the claim of pod {owner['name']} {owner['uid']} is given to another: {consumer}"
        results = (_allocation(claim) or {})["devices"]["results"]
        others = {result["driver"] for result in results} - {*self._names.allocated_drivers}
        if others:
            yield f"devices of other drivers are allocated: {sorted(others)}"
        if self._says_devices:
            yield from device_status_problems(claim, self._names.driver)

    def _may_run(self, pod: Object) -> bool:
        return not is_terminal(pod) and not is_deleting(pod) and not self._is_gated(pod)

    def _is_gated(self, pod: Object) -> bool:
        """Whether the pod has not been let go, or has its gate again because a backup was restored."""
        return self._names.gate in [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]

    def _namespaces(self) -> frozenset[str]:
        """The namespaces of users."""
        known = (one["metadata"]["name"] for one in self._reader.list(NAMESPACES, limit=0).items)
        return frozenset(name for name in known if name != CONTROLLER_NAMESPACE and not name.startswith("kube-"))

    def _read(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return self._reader.get(resource, name, namespace)
        except NotFound:
            return None


def _version(obj: Object) -> int:
    """The version of an object; 0 of what is no object, such as the answer to an eviction."""
    return int((obj.get("metadata") or {}).get("resourceVersion") or 0)


def asks_for_node(pod: Object) -> bool:
    """Whether the condition that autoscalers read says that no node takes the pod."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((one["type"], one.get("reason")) == ("PodScheduled", "Unschedulable") for one in conditions)


def _allocation(claim: Object) -> Any:
    return (claim.get("status") or {}).get("allocation")


def _consumers(claim: Object) -> dict[str, str]:
    """Names of the pods that the claim is reserved for, by uid."""
    return {one["uid"]: one["name"] for one in (claim.get("status") or {}).get("reservedFor") or []}


def _node_of(claim: Object | None) -> str:
    """The one node of the claim's allocation; "" if it has none."""
    selector = (_allocation(claim or {}) or {}).get("nodeSelector") or {}
    for term in selector.get("nodeSelectorTerms") or []:
        for one in term.get("matchFields") or []:
            return str(one["values"][0])
    return ""


def _event_problems(event: Mapping[str, Any]) -> Iterator[str]:
    message = event.get("message") or ""
    if len(message) > MAX_EVENT_MESSAGE:
        yield f"the Event's message has {len(message)} characters"
