"""kube-scheduler for pods whose claims another component allocates, beside claims that it allocates itself."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from driver.clock import Clock, rfc3339
from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, Api, ApiError, Object
from driver.kube.objects import claim_name, controller_of, is_deleting, is_terminal, name_key
from driver.model import Allocation
from driver.names import DEFAULT_DRIVER
from driver.node_selectors import selects
from driver.quantity import Quantity
from driver.wire import node_selector_from
from simulation.kubernetes.component import FakeComponent, WorkKey, delete_by_uid, mutable_copy, patch_conditions
from simulation.kubernetes.other_drivers import OtherDrivers, is_for_driver
from simulation.kubernetes.preemption import priority_of, victims, waits_for_victims

BindPod = Callable[[str, str, str], object]
"""``POST pods/<name>/binding``, called with namespace, pod name and node name."""

BACKOFF_SECONDS = 5.0
REFUSED_ON = "simulation/refused-on"
"""Annotation of a pod: nodes, separated by commas, that kube-scheduler refuses for a reason nobody else knows."""


@dataclass(slots=True)
class _Claims:
    """The claims of a pod."""

    allocated: list[Object] = field(default_factory=list)
    to_allocate: list[Object] = field(default_factory=list)
    """For devices of other drivers."""


class KubeScheduler(FakeComponent):
    """Filters, reserves and binds pods without gates, and evicts others for them.

    It allocates no claims for devices of ``driver``: the policy would refuse that.
    """

    def __init__(self, api: Api, clock: Clock, bind: BindPod, driver: str = DEFAULT_DRIVER):
        super().__init__(api, clock)
        self._post_binding = bind
        self._driver = driver
        self._others = OtherDrivers(api, clock)
        self._bound: dict[str, str] = {}
        self._nodes = self.watch(NODES, lambda _: self._requeue_pods())
        self._allocated: set[str] = set()
        self._claims = self.watch(RESOURCE_CLAIMS, self._claim_changed)
        self._pods = self.watch(PODS, self._pod_changed)

    def _pod_changed(self, pod: Object) -> None:
        if self._needs_node(pod):
            self.queue.add(("pod", *name_key(pod)))
        else:
            self._requeue_pods()

    def _claim_changed(self, claim: Object) -> None:
        """Try the pods that name the claim, and all of them if devices became free."""
        namespace, name = name_key(claim)
        uid, present = claim["metadata"]["uid"], self._claims.get(namespace, name)
        is_there = present is not None and present["metadata"]["uid"] == uid
        if is_there and (claim.get("status") or {}).get("allocation") is not None:
            self._allocated.add(uid)
        elif uid in self._allocated:
            self._allocated.discard(uid)
            self._requeue_pods()
            return
        for pod in self._pods.all():
            if name_key(pod)[0] == namespace and _names(pod, name) and self._needs_node(pod):
                self.queue.add(("pod", *name_key(pod)))

    def _requeue_pods(self) -> None:
        for pod in self._pods.all():
            if self._needs_node(pod):
                self.queue.add(("pod", *name_key(pod)))

    def _needs_node(self, pod: Object) -> bool:
        spec = pod["spec"]
        ended = is_deleting(pod) or is_terminal(pod) or self._pods.get(*name_key(pod)) is None
        placed = spec.get("nodeName") or pod["metadata"]["uid"] in self._bound
        return not (ended or placed or spec.get("schedulingGates"))

    def reconcile(self, key: WorkKey) -> None:
        """One scheduling cycle of one pod."""
        pod = self._pods.get(key[1], key[2])
        if pod is None or not self._needs_node(pod):
            return
        claims = _Claims()
        problem = self._collect_claims(pod, claims)
        candidates = [] if problem else [node for node in self._nodes.all() if not self._filter_reason(pod, node)]
        reached = [node for node in candidates if all(_reaches(claim, node) for claim in claims.allocated)]
        chosen = self._choose(reached, claims.to_allocate)
        if not problem and chosen is None:
            problem = self._unschedulable_message(pod, candidates)
            self._post_filter(pod, claims.allocated, candidates)
            if not candidates:
                self._preempt(pod, claims.allocated)
        if problem or chosen is None:
            self._set_unschedulable(pod, problem)
            self.queue.add(key, BACKOFF_SECONDS)
            return
        node, allocations = chosen
        self._bind(pod, claims, node, allocations)

    def _choose(self, nodes: Sequence[Object], claims: Sequence[Object]) -> tuple[str, Sequence[Allocation]] | None:
        """The first node with devices for these claims, and what they get there."""
        if not claims:
            return (nodes[0]["metadata"]["name"], ()) if nodes else None
        fleet = self._others.devices() if nodes else None
        for node in nodes:
            if fleet is not None and (found := self._others.choose(fleet, node, claims)) is not None:
                return node["metadata"]["name"], found
        return None

    def _preempt(self, pod: Object, claims: Sequence[Object]) -> None:
        """Evict pods from the first node where that makes room, and nominate it."""
        if pod["spec"].get("preemptionPolicy") == "Never":
            return
        for node in self._nodes.all():
            name, present = node["metadata"]["name"], self._pods_on(node["metadata"]["name"])
            if _nominated(pod) == name and waits_for_victims(pod, present):
                return
            found = victims(pod, present, partial(filter_reason, pod, node))
            if found and all(_reaches(claim, node) for claim in claims):
                for victim in found:
                    self._evict(victim)
                if _nominated(pod) != name:
                    patch_conditions(self.api, pod, [], nominatedNodeName=name)
                return

    def _evict(self, pod: Object) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        if not is_deleting(pod):
            patch_conditions(self.api, pod, [condition])
            delete_by_uid(self.api, PODS, pod)

    def _collect_claims(self, pod: Object, claims: _Claims) -> str:
        """Add the pod's claims to ``claims``; returns the reason why no node can take the pod, or ""."""
        namespace = pod["metadata"]["namespace"]
        for entry in pod["spec"].get("resourceClaims") or []:
            name = claim_name(pod, entry)
            claim = self._claims.get(namespace, name) if name else None
            if claim is None:
                return f'waiting for resource claim of entry "{entry["name"]}" to exist'
            owner = controller_of(claim, "Pod")
            if entry.get("resourceClaimTemplateName") and (not owner or owner["uid"] != pod["metadata"]["uid"]):
                return f'resourceclaim "{name}" was not created for this pod'
            if is_deleting(claim):
                return f'resourceclaim "{name}" is being deleted'
            if (claim.get("status") or {}).get("allocation") is not None:
                claims.allocated.append(claim)
            elif is_for_driver(claim, self._driver):
                return f'resourceclaim "{name}" is not allocated'
            else:
                claims.to_allocate.append(claim)
        return ""

    def _filter_reason(self, pod: Object, node: Object) -> str:
        """As kube-scheduler does, it keeps free what pods of at least this priority need that are nominated there."""
        name = node["metadata"]["name"]
        nominated = [
            other
            for other in self._pods.all()
            if not self._node_of(other) and _nominated(other) == name and priority_of(other) >= priority_of(pod)
        ]
        others = [other for other in nominated if other["metadata"]["uid"] != pod["metadata"]["uid"]]
        return filter_reason(pod, node, [*self._pods_on(name), *others])

    def _pods_on(self, node: str) -> list[Object]:
        return [pod for pod in self._pods.all() if self._node_of(pod) == node]

    def _node_of(self, pod: Object) -> str:
        return pod["spec"].get("nodeName") or self._bound.get(pod["metadata"]["uid"], "")

    def _unschedulable_message(self, pod: Object, candidates: list[Object]) -> str:
        reasons = sorted({reason for n in self._nodes.all() if (reason := self._filter_reason(pod, n))})
        reasons += ["cannot allocate all claims"] if candidates else []
        return f"0/{len(list(self._nodes.all()))} nodes are available: {'; '.join(reasons)}"

    def _post_filter(self, pod: Object, claims: list[Object], candidates: list[Object]) -> None:
        """Try to deallocate a claim that some candidate cannot reach, as kube-scheduler does; the policy refuses it."""
        for claim in claims:
            users = [entry["uid"] for entry in claim["status"].get("reservedFor") or []]
            unavailable = any(not _reaches(claim, node) for node in candidates)
            if unavailable and users in ([], [pod["metadata"]["uid"]]):
                changed = mutable_copy(claim)
                changed["status"] = {}
                try:
                    self.api.update(RESOURCE_CLAIMS, changed, "status")
                except ApiError:
                    return

    def _set_unschedulable(self, pod: Object, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        before: list[Object] = (pod.get("status") or {}).get("conditions") or []
        reported = [
            (c.get("reason"), c.get("message"), c.get("lastProbeTime")) for c in before if c["type"] == "PodScheduled"
        ]
        if reported != [("Unschedulable", message, None)]:
            patch_conditions(self.api, pod, [condition])

    def _bind(self, pod: Object, claims: _Claims, node: str, allocations: Sequence[Allocation]) -> None:
        namespace, name = name_key(pod)
        consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
        for claim, allocation in zip(claims.to_allocate, allocations, strict=True):
            self._others.allocate(claim, allocation, consumer)
        for claim in claims.allocated:
            reserved = claim["status"].get("reservedFor") or []
            if consumer["uid"] not in [entry["uid"] for entry in reserved]:
                changed = mutable_copy(claim)
                changed["status"]["reservedFor"] = [*reserved, consumer]
                self.api.update(RESOURCE_CLAIMS, changed, "status")
        try:
            self._post_binding(namespace, name, node)
        except ApiError:
            self._unreserve(pod, [*claims.allocated, *claims.to_allocate])
            raise
        self._bound[consumer["uid"]] = node

    def _unreserve(self, pod: Object, claims: Iterable[Object]) -> None:
        """Remove the pod's reservations after a failed bind, even those of another component."""
        namespace, _ = name_key(pod)
        for claim in claims:
            entry = {"$patch": "delete", "uid": pod["metadata"]["uid"]}
            patch = {"metadata": {"uid": claim["metadata"]["uid"]}, "status": {"reservedFor": [entry]}}
            self.api.patch(
                RESOURCE_CLAIMS,
                claim["metadata"]["name"],
                patch,
                namespace=namespace,
                subresource="status",
                patch_type="strategic",
            )


def _names(pod: Object, claim: str) -> bool:
    """Whether the pod uses the claim of this name in its namespace."""
    return any(claim_name(pod, entry) == claim for entry in pod["spec"].get("resourceClaims") or [])


def filter_reason(pod: Object, node: Object, present: Iterable[Object]) -> str:
    """The reason why the node cannot take the pod beside those that are ``present``, apart from claims; "" if it
    can."""
    spec, metadata = pod["spec"], node["metadata"]
    if (node.get("spec") or {}).get("unschedulable"):
        return "node(s) were unschedulable"
    if _untolerated(spec.get("tolerations") or [], (node.get("spec") or {}).get("taints") or []):
        return "node(s) had untolerated taints"
    labels = metadata.get("labels") or {}
    if not all(labels.get(k) == v for k, v in (spec.get("nodeSelector") or {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required and not selects(node_selector_from(required), metadata["name"], labels):
        return "node(s) didn't match Pod's node affinity/selector"
    refused = (pod["metadata"].get("annotations") or {}).get(REFUSED_ON, "")
    if metadata["name"] in refused.split(","):
        return "node(s) didn't satisfy plugin(s) [Unknown]"
    return _insufficient(pod, node, [other for other in present if not is_terminal(other)])


def _insufficient(pod: Object, node: Object, present: list[Object]) -> str:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    if len(present) + 1 > Quantity.parse(allocatable.get("pods", "110")).value:
        return "Too many pods"
    for resource in ("cpu", "memory"):
        if resource in allocatable:
            used = sum(requested(p, resource) for p in [*present, pod])
            if used > Quantity.parse(allocatable[resource]).nanos:
                return f"Insufficient {resource}"
    return ""


def requested(pod: Object, resource: str) -> int:
    """The pod's request for cpu or memory in nano-units: the sum over its containers."""
    return sum(
        Quantity.parse(str(((c.get("resources") or {}).get("requests") or {}).get(resource, "0"))).nanos
        for c in pod["spec"].get("containers") or []
    )


def _nominated(pod: Object) -> str:
    return (pod.get("status") or {}).get("nominatedNodeName") or ""


def _reaches(claim: Object, node: Object) -> bool:
    selector = claim["status"]["allocation"].get("nodeSelector")
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    return not selector or selects(node_selector_from(selector), name, labels)


def _untolerated(tolerations: list[Object], taints: list[Object]) -> bool:
    def tolerated(taint: Object) -> bool:
        return any(
            t.get("effect", taint["effect"]) in ("", taint["effect"])
            and t.get("key", "") in ("", taint["key"])
            and (t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", ""))
            for t in tolerations
        )

    return any(taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated(taint) for taint in taints)
