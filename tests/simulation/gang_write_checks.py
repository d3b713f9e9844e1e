"""What must hold for gangs at every write of a controller, judged by the API's objects alone.

A gang is what pods say by ``gang.name`` of a claim, the group of Kueue, or their Job. PodGroups and owners of other
kinds are not looked at: nothing in a simulated cluster makes them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from driver.kube.api import JOBS, NODES, PODS, RESOURCE_CLAIMS, Api, Object, Resource
from driver.kube.objects import claim_name, controller_of, is_deleting, is_terminal, pod_phase
from driver.names import Names

Read = Callable[[Resource, str, str], Object | None]
"""Reads an object by namespace and name; None if there is none."""

_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
_GROUP_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a pod and its claims say about its gang."""

    gang: str
    minimum: int
    labels: tuple[str, ...]
    """Keys of the node labels in one domain of which the whole gang has to be, for as long as it runs."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """A member that lives and holds devices."""

    uid: str
    node: str
    let_go: bool


class GangWriteChecks:
    """Watches the writes of one process.

    Args:
        reader: lists objects for the checks.
        read: reads one of them.
    """

    def __init__(self, reader: Api, names: Names, read: Read):
        self._reader = reader
        self._names = names
        self._read = read
        self._given: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(dict)
        """Uids of the pods that each claim was given to by this process, by namespace and gang. One that is deleted
        may still live for the process."""
        self._domains: dict[tuple[str, str], str] = {}
        """The last domain of each node, by node and label. A gang keeps it when the node has lost the label."""

    def claim_problems(self, had: object, claim: Object) -> Iterator[str]:
        """What the process has written makes sense: what a gang holds is in one domain of each required level.

        Args:
            had: the allocation before.
            claim: whose status was written.
        """
        namespace, uid, has = claim["metadata"]["namespace"], claim["metadata"]["uid"], _allocation(claim)
        if not has:
            for given in self._given.values():
                given.pop(uid, None)
            return
        asked = next((found for pod in self._users(claim) if (found := self._asked(pod))), None)
        if asked is None:
            return
        self._given[namespace, asked.gang][uid] = set(_consumers(claim))
        holders = self._holders(namespace, asked.gang) if not had else ()
        for label in asked.labels:
            domains = sorted({self._domain(holder.node, label) for holder in holders} - {""})
            if len(domains) > 1:
                yield f"gang {asked.gang} is split over domains of {label}: {domains}"

    def start_problems(self, pod: Object) -> Iterator[str]:
        """A pod that is let go as the first of its gang is one of as many with devices as have to start together."""
        asked = self._asked(pod)
        if asked is None:
            return
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        holders = self._holders(namespace, asked.gang)
        if any(holder.let_go for holder in holders if holder.uid != uid):
            return
        given = self._given[namespace, asked.gang]
        placed = {holder.uid for holder in holders}.union(*given.values())
        given.clear()
        needed = asked.minimum - self._succeeded(pod)
        if len(placed) < needed:
            yield f"the first pod of gang {asked.gang} is let go with {len(placed)} of {needed} members placed"

    def _asked(self, pod: Object) -> _Asked | None:
        parameters = [one for claim in self._claims(pod) for one in self._parameters(claim)]
        gangs = [one["gang"] for one in parameters if one.get("gang") is not None]
        found = self._named(pod, gangs)
        if found is None:
            return None
        name, size = found
        minimum = next((gang["minAvailable"] for gang in gangs if "minAvailable" in gang), size)
        levels = [level for one in parameters for level in one.get("topology") or ()]
        whole = [one for one in levels if one.get("mode") in (None, "required") and not one.get("groupSize")]
        # Where members that may move go depends on what the process knows of the domains.
        moves = any(gang.get("onDomainLoss") == "move" for gang in gangs)
        labels = () if moves else tuple(one["nodeLabel"] for one in whole if one.get("nodeLabel"))
        return _Asked(name, minimum, labels)

    def _named(self, pod: Object, gangs: list[Object]) -> tuple[str, int] | None:
        """The name of the pod's gang, and how many members there are; None if it is in none."""
        metadata = pod["metadata"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        if name := next((gang["name"] for gang in gangs if gang.get("name")), ""):
            return name, 0
        if group := labels.get(_GROUP):
            return group, int(annotations[_GROUP_SIZE])
        owner = controller_of(pod, "Job")
        job = self._read(JOBS, metadata["namespace"], owner["name"]) if owner else None
        if job is None or not (gangs or labels.get(self._names.gang) == ""):
            return None
        return job["metadata"]["name"], min(job["spec"].get("parallelism", 1), job["spec"].get("completions", 1))

    def _parameters(self, claim: Object) -> Iterator[Object]:
        for config in claim["spec"].get("devices", {}).get("config") or ():
            opaque = config.get("opaque") or {}
            if opaque.get("driver") == self._names.driver:
                yield opaque.get("parameters") or {}

    def _claims(self, pod: Object) -> Iterator[Object]:
        for entry in pod["spec"].get("resourceClaims") or ():
            name = claim_name(pod, entry)
            claim = self._read(RESOURCE_CLAIMS, pod["metadata"]["namespace"], name) if name else None
            if claim is not None:
                yield claim

    def _users(self, claim: Object) -> Iterator[Object]:
        """The pods that the claim is reserved for."""
        for uid, name in _consumers(claim).items():
            pod = self._read(PODS, claim["metadata"]["namespace"], name)
            if pod is not None and pod["metadata"]["uid"] == uid:
                yield pod

    def _holders(self, namespace: str, gang: str) -> list[_Holder]:
        found: dict[str, _Holder] = {}
        for claim in self._reader.list(RESOURCE_CLAIMS, namespace=namespace, limit=0).items:
            for pod in self._users(claim) if _allocation(claim) else ():
                asked = None if is_terminal(pod) or is_deleting(pod) else self._asked(pod)
                if asked is not None and asked.gang == gang:
                    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]
                    uid = pod["metadata"]["uid"]
                    found[uid] = _Holder(uid, _node_of(claim), self._names.gate not in gates)
        return list(found.values())

    def _domain(self, node: str, label: str) -> str:
        """The domain of the node, or the last one that was seen; "" if none was."""
        host = self._read(NODES, "", node) or {"metadata": {}}
        if value := (host["metadata"].get("labels") or {}).get(label):
            self._domains[node, label] = str(value)
        return self._domains.get((node, label), "")

    def _succeeded(self, pod: Object) -> int:
        """How many pods of the same Job have succeeded."""
        owner, namespace = controller_of(pod, "Job"), pod["metadata"]["namespace"]
        if owner is None:
            return 0
        ended = [
            other
            for other in self._reader.list(PODS, namespace=namespace, limit=0).items
            if pod_phase(other) == "Succeeded" and (controller_of(other, "Job") or {}).get("uid") == owner["uid"]
        ]
        job = self._read(JOBS, namespace, owner["name"]) or {}
        return max(len(ended), (job.get("status") or {}).get("succeeded") or 0)


def _allocation(claim: Object) -> Object | None:
    found: Object | None = (claim.get("status") or {}).get("allocation")
    return found


def _consumers(claim: Object) -> dict[str, str]:
    return {one["uid"]: one["name"] for one in (claim.get("status") or {}).get("reservedFor") or []}


def _node_of(claim: Object) -> str:
    selector = (_allocation(claim) or {}).get("nodeSelector") or {}
    fields = [one for term in selector.get("nodeSelectorTerms") or [] for one in term.get("matchFields") or []]
    return str(fields[0]["values"][0]) if fields else ""
