"""What must hold for gangs at every write of a controller, judged by the API's objects alone.

A gang is what claims name in ``gang.name`` of their ``PlacementConfig``; other sources are not looked at.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from driver.kube.api import JOBS, NODES, PODS, RESOURCE_CLAIMS, Api, Object, Resource
from driver.kube.objects import controller_of, is_deleting, is_terminal, pod_phase
from driver.names import Names

Read = Callable[[Resource, str, str], Object | None]
"""Reads an object by namespace and name; None if there is none."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a claim says about the gang of its pod."""

    gang: str
    minimum: int
    labels: tuple[str, ...]
    """Keys of the node labels in one domain of which the whole gang has to be."""


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

    def claim_problems(self, had: object, claim: Object) -> Iterator[str]:
        """What the process has written makes sense: what a gang holds is in one domain of each required level.

        Args:
            had: the allocation before.
            claim: whose status was written.
        """
        asked = self._asked(claim)
        if asked is None:
            return
        namespace, uid = claim["metadata"]["namespace"], claim["metadata"]["uid"]
        given, has = self._given[namespace, asked.gang], _allocation(claim)
        if has:
            given[uid] = set(_consumers(claim))
        else:
            given.pop(uid, None)
        holders = self._holders(namespace, asked.gang) if has and not had else ()
        for label in asked.labels:
            domains = sorted({self._label(holder.node, label) for holder in holders})
            if len(domains) > 1:
                yield f"gang {asked.gang} is split over domains of {label}: {domains}"

    def start_problems(self, pod: Object, claims: Collection[Object | None]) -> Iterator[str]:
        """A pod that is let go as the first of its gang is one of as many with devices as have to start together.

        Args:
            claims: of the pod.
        """
        asked = next((found for claim in claims if claim and (found := self._asked(claim))), None)
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

    def _asked(self, claim: Object) -> _Asked | None:
        for config in claim["spec"].get("devices", {}).get("config") or ():
            opaque = config.get("opaque") or {}
            parameters = opaque.get("parameters") or {}
            gang = parameters.get("gang") or {}
            if opaque.get("driver") == self._names.driver and gang.get("name"):
                levels = parameters.get("topology") or ()
                whole = [one for one in levels if one.get("mode") in (None, "required") and not one.get("groupSize")]
                labels = tuple(one["nodeLabel"] for one in whole if one.get("nodeLabel"))
                return _Asked(gang["name"], gang["minAvailable"], labels)
        return None

    def _holders(self, namespace: str, gang: str) -> list[_Holder]:
        found: dict[str, _Holder] = {}
        for claim in self._reader.list(RESOURCE_CLAIMS, namespace=namespace, limit=0).items:
            asked = self._asked(claim) if _allocation(claim) else None
            for uid, name in _consumers(claim).items() if asked and asked.gang == gang else ():
                pod = self._read(PODS, namespace, name)
                if pod and pod["metadata"]["uid"] == uid and not is_terminal(pod) and not is_deleting(pod):
                    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]
                    found[uid] = _Holder(uid, _node_of(claim), self._names.gate not in gates)
        return list(found.values())

    def _label(self, node: str, label: str) -> str:
        host = self._read(NODES, "", node) or {"metadata": {}}
        return str((host["metadata"].get("labels") or {}).get(label, ""))

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
