"""What must hold for gangs at every write of a controller, judged by the API's objects alone.

A gang is what pods say by ``gang.name`` of a claim, a CompositePodGroup with PodGroups in it, a PodGroup of Volcano, a
PodGang of Grove, the group of Kueue, their JobSet or their Job. Other PodGroups and owners of other kinds are not
looked at: nothing in a simulated cluster makes them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from controller.state import epoch_seconds
from driver.clock import Clock
from driver.kube.api import (
    COMPOSITE_POD_GROUPS,
    GROVE_POD_GANGS,
    JOB_SETS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    VOLCANO_POD_GROUPS,
    Api,
    Object,
    Resource,
)
from driver.kube.objects import claim_name, controller_of, is_deleting, is_terminal, pod_phase
from driver.names import Names

Read = Callable[[Resource, str, str], Object | None]
"""Reads an object by namespace and name; None if there is none."""

_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
_GROUP_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
_VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
_POD_GANG: Final = "grove.io/podgang"
_SET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
_SET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
_MOMENT: Final = 60.0
"""Seconds by which what a process knows may lag behind."""

SubGroup = tuple[str, ...]
"""A sub-group by the values of its labels."""


@dataclass(frozen=True, slots=True)
class _SubGroups:
    """By which labels members form sub-groups, with how many members one is whole, and how many whole ones start."""

    keys: tuple[str, ...]
    size: int
    minimum: int

    def of(self, pod: Object) -> SubGroup | None:
        """The sub-group of the pod; None if it is in none."""
        labels = pod["metadata"].get("labels") or {}
        values = tuple(labels.get(key, "") for key in self.keys)
        return values if all(values) else None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a pod and its claims say about its gang."""

    gang: str
    minimum: int
    labels: tuple[str, ...]
    """Keys of the node labels in one domain of which the whole gang has to be, for as long as it runs."""
    sub_groups: _SubGroups | None = None


@dataclass(frozen=True, slots=True)
class _Named:
    """Which gang a pod is in, how many members of it have to start together, and which of them form sub-groups."""

    name: str
    size: int
    first: int | None = None
    """How many of them are made at once; None if all are."""
    sub_groups: _SubGroups | None = None
    labels: tuple[str, ...] = ()
    """Node labels of which all members have one value."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """A member that lives and holds devices."""

    uid: str
    node: str
    let_go: bool
    sub_group: SubGroup | None


class GangWriteChecks:
    """Watches the writes of one process.

    Args:
        reader: lists objects for the checks.
        read: reads one of them.
        clock: of the API server.
    """

    def __init__(self, reader: Api, names: Names, read: Read, clock: Clock):
        self._reader = reader
        self._names = names
        self._read = read
        self._clock = clock
        self._given: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(dict)
        """Uids of the pods that each claim was given to by this process, by namespace and gang. One that is deleted
        may still live for the process."""
        self._gang_of: dict[str, str] = {}
        """Of each of these pods, by uid. The claims of one that has ended may be gone."""
        self._sub_group_of: dict[str, SubGroup] = {}
        """Of each of these pods that is in one, by uid."""
        self._started: dict[tuple[str, str], float] = {}
        """When this process let a pod go, by namespace and gang (epoch seconds)."""
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
        users = list(self._users(claim))
        asked = next((found for pod in users if (found := self._asked(pod))), None)
        if asked is None:
            return
        self._given[namespace, asked.gang][uid] = set(_consumers(claim))
        self._gang_of |= {pod["metadata"]["uid"]: asked.gang for pod in users}
        if asked.sub_groups is not None:
            of_users = {pod["metadata"]["uid"]: asked.sub_groups.of(pod) for pod in users}
            self._sub_group_of |= {user: sub_group for user, sub_group in of_users.items() if sub_group is not None}
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
        holders, now = self._holders(namespace, asked.gang), self._clock.now()
        # kube-scheduler may have dropped the reservation of one that was let go a moment ago.
        started = self._started.get((namespace, asked.gang), -_MOMENT) > now - _MOMENT
        self._started[namespace, asked.gang] = now
        if started or any(holder.let_go for holder in holders if holder.uid != uid):
            yield from self._begin_problems(pod, asked, holders)
            return
        given = self._given[namespace, asked.gang]
        placed = {holder.uid for holder in holders}.union(*given.values())
        own = asked.sub_groups.of(pod) if asked.sub_groups else None
        for claim in [claim for claim, users in given.items() if self._is_of(own, users)]:
            del given[claim]
        if self._just_ended(namespace, asked.gang):
            return
        runs = self._runs(namespace, asked.gang)
        ended = self._ended(namespace, runs)
        needed = asked.minimum - self._succeeded(namespace, runs, ended)
        if len(placed) < needed:
            yield f"the first pod of gang {asked.gang} is let go with {len(placed)} of {needed} members placed"
        if asked.sub_groups is not None:
            of_holders = {holder.uid: holder.sub_group for holder in holders}
            begun = [of_holders.get(one, self._sub_group_of.get(one)) for one in placed]
            yield from _sub_group_problems(asked, asked.sub_groups, ended, begun, own)

    def _begin_problems(self, pod: Object, asked: _Asked, holders: Collection[_Holder]) -> Iterator[str]:
        """When the gang has started, the first pod of a sub-group is let go when the sub-group is whole."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        own = asked.sub_groups.of(pod) if asked.sub_groups else None
        if own is None or asked.sub_groups is None:
            return
        together = {holder.uid: holder.let_go for holder in holders if holder.sub_group == own}
        if any(let_go for one, let_go in together.items() if one != uid):
            return
        given = self._given[namespace, asked.gang]
        of_own = {claim: users for claim, users in given.items() if self._is_of(own, users)}
        for claim in of_own:
            del given[claim]
        ended = self._ended(namespace, self._runs(namespace, asked.gang))
        count = len(set(together).union(*of_own.values())) + sum(asked.sub_groups.of(one) == own for one in ended)
        if count < asked.sub_groups.size and own not in self._just_ended(namespace, asked.gang):
            size, name = asked.sub_groups.size, "/".join(own)
            yield f"sub-group {name} of gang {asked.gang} starts with {count} of {size} members"

    def _is_of(self, sub_group: SubGroup | None, users: Collection[str]) -> bool:
        """Whether a claim was given to the sub-group, or to members without one; None stands for the whole gang."""
        of_users = {self._sub_group_of.get(user) for user in users}
        return sub_group is None or bool(of_users & {sub_group, None})

    def _asked(self, pod: Object) -> _Asked | None:
        parameters = [one for claim in self._claims(pod) for one in self._parameters(claim)]
        gangs = [one["gang"] for one in parameters if one.get("gang") is not None]
        found = self._named(pod, gangs)
        if found is None:
            return None
        minimum = next((gang["minAvailable"] for gang in gangs if "minAvailable" in gang), found.size)
        said = next((gang["subGroup"] for gang in gangs if "subGroup" in gang), None)
        sub_groups = _said_sub_groups(said) if said else found.sub_groups
        minimum = max(minimum, sub_groups.size * sub_groups.minimum) if sub_groups else minimum
        levels = [level for one in parameters for level in one.get("topology") or ()]
        of_parts = ("groupSize", "perSubGroup")
        whole = [
            one for one in levels if one.get("mode") in (None, "required") and not any(one.get(key) for key in of_parts)
        ]
        # Where members that may move go depends on what the process knows of the domains.
        moves = any(gang.get("onDomainLoss") == "move" for gang in gangs)
        of_claims = tuple(one["nodeLabel"] for one in whole if one.get("nodeLabel"))
        labels = () if moves else of_claims or found.labels
        return _Asked(found.name, minimum if found.first is None else min(minimum, found.first), labels, sub_groups)

    def _named(self, pod: Object, gangs: list[Object]) -> _Named | None:
        """The gang of the pod; None if it is in none."""
        metadata = pod["metadata"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        if name := next((gang["name"] for gang in gangs if gang.get("name")), ""):
            return _Named(name, 0)
        if name := annotations.get(_VOLCANO_GROUP, ""):
            group = self._read(VOLCANO_POD_GROUPS, metadata["namespace"], name)
            return _volcano(name, group) if group else None
        if name := (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", ""):
            group = self._read(POD_GROUPS[0], metadata["namespace"], name)
            return self._of_tree(metadata["namespace"], group) if group else None
        if name := labels.get(_POD_GANG, ""):
            pod_gang = self._read(GROVE_POD_GANGS, metadata["namespace"], name)
            return _of_grove(name, pod_gang) if pod_gang else None
        if name := labels.get(_GROUP, ""):
            return _Named(name, int(annotations[_GROUP_SIZE]))
        return self._owned(pod) if gangs or labels.get(self._names.gang) == "" else None

    def _of_tree(self, namespace: str, group: Object) -> _Named | None:
        """As many members as the fewest groups need that are enough."""
        name = group["spec"].get("parentCompositePodGroupName", "")
        composite = self._read(COMPOSITE_POD_GROUPS[0], namespace, name)
        if composite is None:
            return None
        groups = self._reader.list(POD_GROUPS[0], namespace=namespace, limit=0).items
        inside = [one["spec"] for one in groups if one["spec"].get("parentCompositePodGroupName") == name]
        sizes = sorted(spec["schedulingPolicy"]["gang"]["minCount"] for spec in inside)
        enough = composite["spec"]["schedulingPolicy"]["gang"]["minGroupCount"]
        keys = [one["key"] for one in (composite["spec"].get("schedulingConstraints") or {}).get("topology") or ()]
        return _Named(f"{COMPOSITE_POD_GROUPS[0].kind}/{name}", sum(sizes[:enough]), labels=tuple(keys))

    def _owned(self, pod: Object) -> _Named | None:
        namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
        if uid := labels.get(_SET_UID):
            job_set = self._read(JOB_SETS, namespace, labels[_SET_NAME])
            return _of_job_set(job_set, self._names.gang) if job_set and job_set["metadata"]["uid"] == uid else None
        owner = controller_of(pod, "Job")
        job = self._read(JOBS, namespace, owner["name"]) if owner else None
        return _Named(job["metadata"]["name"], _size_of(job["spec"])) if job else None

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
                    sub_group = asked.sub_groups.of(pod) if asked.sub_groups else None
                    found[uid] = _Holder(uid, _node_of(claim), self._names.gate not in gates, sub_group)
        return list(found.values())

    def _domain(self, node: str, label: str) -> str:
        """The domain of the node, or the last one that was seen; "" if none was."""
        host = self._read(NODES, "", node) or {"metadata": {}}
        if value := (host["metadata"].get("labels") or {}).get(label):
            self._domains[node, label] = str(value)
        return self._domains.get((node, label), "")

    def _just_ended(self, namespace: str, gang: str) -> list[SubGroup | None]:
        """The sub-groups of members that were let go and ended a moment ago: they may still run for the process."""
        pods = self._reader.list(PODS, namespace=namespace, limit=0).items
        ended = [pod for pod in pods if is_terminal(pod) and not pod["spec"].get("schedulingGates")]
        recent = [pod for pod in ended if _ended_at(pod) > self._clock.now() - _MOMENT]
        known = [(pod["metadata"]["uid"], pod, self._asked(pod)) for pod in recent]
        return [
            found.sub_groups.of(pod) if found and found.sub_groups else self._sub_group_of.get(uid)
            for uid, pod, found in known
            if (found.gang if found else self._gang_of.get(uid)) == gang
        ]

    def _succeeded(self, namespace: str, runs: Collection[str], ended: Collection[Object]) -> int:
        """How many pods of these Jobs and JobSets have succeeded.

        Args:
            ended: those that are still there.
        """
        count = Counter((controller_of(pod, "Job") or {}).get("uid", "") for pod in ended)
        for job in self._reader.list(JOBS, namespace=namespace, limit=0).items:
            uid, status = job["metadata"]["uid"], job.get("status") or {}
            if uid in runs or (job["metadata"].get("labels") or {}).get(_SET_UID) in runs:
                count[uid] = max(count[uid], status.get("succeeded") or 0)
        return count.total()

    def _ended(self, namespace: str, runs: Collection[str]) -> list[Object]:
        """The pods of these Jobs and JobSets that have succeeded. Their claims may be gone."""
        pods = self._reader.list(PODS, namespace=namespace, limit=0).items
        return [pod for pod in pods if pod_phase(pod) == "Succeeded" and _run(pod) in runs]

    def _runs(self, namespace: str, gang: str) -> set[str]:
        """The uids of the Jobs and JobSets that make pods of the gang."""
        pods = self._reader.list(PODS, namespace=namespace, limit=0).items
        return {_run(pod) for pod in pods if (found := self._asked(pod)) and found.gang == gang} - {""}


def _sub_group_problems(
    asked: _Asked,
    sub_groups: _SubGroups,
    ended: Collection[Object],
    placed: Collection[SubGroup | None],
    own: SubGroup | None,
) -> Iterator[str]:
    """Of a gang that starts, the sub-group of the pod that is let go is whole, and as many as have to be.

    Another one may be half: its devices are taken back at the same time. It is judged when a pod of it is let go.

    Args:
        ended: pods that have succeeded.
        placed: the sub-group of each member that has devices.
        own: the sub-group of the pod that is let go.
    """
    begun = Counter(one for one in placed if one)
    there = begun + Counter(one for pod in ended if (one := sub_groups.of(pod)))
    if own is not None and there[own] < sub_groups.size:
        yield f"gang {asked.gang} starts with {there[own]} of {sub_groups.size} members of sub-group {'/'.join(own)}"
    whole = sum(count >= sub_groups.size for count in there.values())
    if whole < sub_groups.minimum:
        yield f"gang {asked.gang} starts with {whole} of {sub_groups.minimum} whole sub-groups"


def _ended_at(pod: Object) -> float:
    """When the pod ceased to be ready (epoch seconds)."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return max((epoch_seconds(one["lastTransitionTime"]) for one in conditions if one["type"] == "Ready"), default=0.0)


def _run(pod: Object) -> str:
    """The uid of the JobSet, or else the Job, that makes the pod; "" if none does."""
    uid = (pod["metadata"].get("labels") or {}).get(_SET_UID) or (controller_of(pod, "Job") or {}).get("uid")
    return str(uid or "")


def _said_sub_groups(said: Object) -> _SubGroups:
    return _SubGroups((said["label"],), said["size"], said.get("minAvailable", 1))


def _volcano(name: str, group: Object) -> _Named:
    spec = group["spec"]
    policy = next((one for one in spec.get("subGroupPolicy") or () if one.get("matchLabelKeys")), None)
    sub_groups = None
    if policy:
        keys = tuple(policy["matchLabelKeys"])
        sub_groups = _SubGroups(keys, policy.get("subGroupSize", 1), policy.get("minSubGroups", 0))
    return _Named(name, spec.get("minMember", 1), sub_groups=sub_groups)


def _of_grove(name: str, pod_gang: Object) -> _Named:
    spec = pod_gang["spec"]
    key = ((spec.get("topologyConstraint") or {}).get("packConstraint") or {}).get("required")
    return _Named(name, sum(one["minReplicas"] for one in spec["podgroups"]), labels=(key,) if key else ())


def _of_job_set(job_set: Object, label: str) -> _Named:
    """How many pods the JobSet makes that are members, and how many of them before any member is ready."""
    spec, size, first = job_set["spec"], 0, 0
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    waiting = set[str]()
    """The parts with members, and those that are made after them."""
    for part in spec["replicatedJobs"]:
        pods = part["template"]["spec"]["template"]
        joins = bool(pods["spec"].get("resourceClaims")) or label in ((pods.get("metadata") or {}).get("labels") or {})
        members = part.get("replicas", 1) * _size_of(part["template"]["spec"]) if joins else 0
        waits = (in_order and waiting) or waiting & {one["name"] for one in part.get("dependsOn") or ()}
        size += members
        first += 0 if waits else members
        if joins or waits:
            waiting.add(part["name"])
    return _Named(f"JobSet {job_set['metadata']['name']}", size, first)


def _size_of(job: Object) -> int:
    return int(min(job.get("parallelism", 1), job.get("completions", 1)))


def _allocation(claim: Object) -> Object | None:
    found: Object | None = (claim.get("status") or {}).get("allocation")
    return found


def _consumers(claim: Object) -> dict[str, str]:
    return {one["uid"]: one["name"] for one in (claim.get("status") or {}).get("reservedFor") or []}


def _node_of(claim: Object) -> str:
    selector = (_allocation(claim) or {}).get("nodeSelector") or {}
    fields = [one for term in selector.get("nodeSelectorTerms") or [] for one in term.get("matchFields") or []]
    return str(fields[0]["values"][0]) if fields else ""
