"""The actions of a history: what users do, beside operators and incidents such as crashes and reboots."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from driver.kube.api import (
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    AlreadyExists,
    NotFound,
    Object,
    Resource,
)
from driver.kube.objects import is_deleting, is_terminal, name_key
from kubeletplugin.hardware.simulated import Profile
from memoryapi import JOBS
from tests.simulation.cluster import SimulatedCluster
from tests.system import other_driver
from tests.system.objects import (
    ADMIN_ACCESS,
    IMPOSSIBLE,
    NAMESPACE,
    OF_ADMINS,
    OF_OTHER_DRIVER,
    REQUESTS,
    claim,
    job,
    pod,
    template,
)
from tests.system.operators import Operators

MOST_PODS = 24
WANTED = {**REQUESTS, **OF_ADMINS}
_MANY = 4
"""How often each further request is among those of pods."""
CPU = ("10m", "10m", "10m", "1", "3", "9", "9")
"""Requests of pods; a node has 16 CPUs."""
PRIORITIES = (0, 0, 0, 0, 1000, -10)
DEADLINES = (0, 30, 30, 60, 60, 150)
"""``activeDeadlineSeconds`` of pods, in histories with deadlines."""
LONGEST_NAME = 253


class RandomWorkload:
    """The actions of one seed. No action waits for its effect.

    Args:
        profiles: what the cards of a node may be changed to.
        more: further actions, each with its weight.
        deadlines: whether pods may have one.
        besides: further requests of pods, by the name of their template.
    """

    def __init__(
        self,
        seed: int,
        cluster: SimulatedCluster,
        profiles: Sequence[Profile],
        more: Iterable[tuple[int, Callable[[], None]]] = (),
        *,
        deadlines: bool = False,
        besides: Mapping[str, Object] | None = None,
    ):
        self._random = random.Random(f"users of {seed}")
        self.operators = Operators(self._random, cluster, profiles)
        self._cluster = cluster
        self._deadlines = deadlines
        self._requests = {**WANTED, **(besides or {})}
        self._wanted = [*WANTED, *_MANY * [*(besides or {})]]
        self._api = cluster.user
        self._count = 0
        self._api.patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": {ADMIN_ACCESS: "true"}}})
        self._api.create(DEVICE_CLASSES, other_driver.device_class())
        # Where nodes share no devices, a node is ruled out by the number of its own.
        shared = self._random.choice((other_driver.slices(), other_driver.slices(), []))
        for part in shared:
            self._api.create(RESOURCE_SLICES, part)
        self._beside = list(OF_OTHER_DRIVER) if shared else [""]
        for name, device_request in {**self._requests, **IMPOSSIBLE, **OF_OTHER_DRIVER}.items():
            self._api.create(RESOURCE_CLAIM_TEMPLATES, template(name, device_request))
        self._actions: list[tuple[int, Callable[[], None]]] = [
            (30, self.new_pod),
            (4, self._new_job),
            (4, self._new_shared_claim),
            (12, self._delete_pod),
            (5, self._force_delete_pod),
            (8, self._finish_pod),
            (2, self._delete_job),
            (2, self._delete_claim),
            (2, self._impossible_pod),
            (3, self._plain_pod),
            (8, self._namesake),
            (2, self._claim_namesake),
            (8, self._pass_time),
            *self.operators.actions,
            *more,
        ]

    def act(self) -> None:
        """Perform one random action."""
        weights, actions = zip(*self._actions, strict=True)
        (action,) = self._random.choices(actions, weights)
        self._cluster.log.note("user", action.__name__.strip("_"))
        try:
            action()
        except (NotFound, AlreadyExists):
            # Its object was deleted by another component meanwhile, or is still being deleted.
            return

    def delete_everything(self, *more: Resource) -> None:
        """What ``kubectl delete jobs,pods,resourceclaims --all`` does; ``more`` are kinds that are deleted before."""
        for resource in (*more, JOBS, PODS, RESOURCE_CLAIMS):
            for obj in self._api.list(resource).items:
                namespace, name = name_key(obj)
                try:
                    self._api.delete(resource, name, namespace)
                except NotFound:
                    continue

    def _name(self, kind: str) -> str:
        self._count += 1
        name = f"{kind}-{self._count}"
        return name.ljust(LONGEST_NAME, "x") if self._random.random() < 0.05 else name

    def _pods(self) -> list[Object]:
        return list(self._api.list(PODS).items)

    def _random_pod(self) -> Object | None:
        pods = [pod for pod in self._pods() if not is_deleting(pod)]
        return self._random.choice(pods) if pods else None

    def new_pod(self) -> None:
        """Create a pod with a random request, unless there are many pods."""
        if len([pod for pod in self._pods() if not is_terminal(pod)]) < MOST_PODS:
            name = self._random.choice(self._wanted)
            self._api.create(PODS, self._pod(self._name(name), name))

    def _pod(self, name: str, template_name: str) -> Object:
        """A pod of random size and priority, which kube-scheduler sometimes refuses on some nodes."""
        nodes = list(self._cluster.nodes)
        refused = self._random.sample(nodes, len(nodes) - 1) if self._random.random() < 0.15 else []
        grace = self._random.choice((1, 1, 30, 120))
        cpu = self._random.choice(CPU)
        beside = self._random.choice(self._beside) if template_name and self._random.random() < 0.1 else ""
        priority = self._random.choice(PRIORITIES)
        deadline = self._random.choice(DEADLINES) if self._deadlines else 0
        return pod(
            name,
            template_name=template_name,
            beside=beside,
            grace=grace,
            cpu=cpu,
            priority=priority,
            refused_on=refused,
            deadline=deadline,
        )

    def _plain_pod(self) -> None:
        """A pod without claims, which takes CPU behind the controller's back."""
        self._api.create(PODS, self._pod(self._name("plain"), ""))

    def _namesake(self) -> None:
        """As a StatefulSet does: a pod is gone, and one of its name is there at once; often while it is placed."""
        placed = [pod for pod in self._pods() if pod["spec"].get("schedulingGates") and _is_nominated(pod)]
        if chosen := self._random.choice(placed) if placed else self._random_pod():
            name = chosen["metadata"]["name"]
            self._api.delete(PODS, name, NAMESPACE, grace_period_seconds=0)
            self._api.create(PODS, self._pod(name, self._random.choice(self._wanted)))

    def _claim_namesake(self) -> None:
        """A claim of a user is gone, and one of its name with another request is there at once."""
        claims = [c for c in self._api.list(RESOURCE_CLAIMS).items if c["metadata"]["name"].startswith("shared-")]
        if claims:
            name = self._random.choice(claims)["metadata"]["name"]
            self._api.delete(RESOURCE_CLAIMS, name, NAMESPACE)
            self._api.create(RESOURCE_CLAIMS, claim(name, self._requests[self._random.choice(self._wanted)]))

    def _impossible_pod(self) -> None:
        """A pod that no node can ever take: for its request, or because many claims with long names do not exist."""
        if self._random.random() < 0.2:
            missing = [f"missing-{at}".ljust(LONGEST_NAME, "x") for at in range(5)]
            self._api.create(PODS, pod(self._name("missing"), missing=missing))
            return
        name = self._random.choice(list(IMPOSSIBLE))
        self._api.create(PODS, pod(self._name(name), template_name=name))

    def _new_job(self) -> None:
        name = self._random.choice(self._wanted)
        cpu = self._random.choice(CPU)
        self._api.create(JOBS, job(self._name("job"), self._random.randint(2, 4), template_name=name, cpu=cpu))

    def _new_shared_claim(self) -> None:
        name = self._name("shared")
        self._api.create(RESOURCE_CLAIMS, claim(name, self._requests[self._random.choice(self._wanted)]))
        for index in range(self._random.randint(1, 3)):
            self._api.create(PODS, pod(f"user-{index}-{name}"[:LONGEST_NAME], claim_name=name))

    def _delete_pod(self) -> None:
        if chosen := self._random_pod():
            self._api.delete(PODS, chosen["metadata"]["name"], NAMESPACE)

    def _force_delete_pod(self) -> None:
        if chosen := self._random_pod():
            self._api.delete(PODS, chosen["metadata"]["name"], NAMESPACE, grace_period_seconds=0)

    def _finish_pod(self) -> None:
        if chosen := self._random_pod():
            self._cluster.end_containers(chosen, self._random.choice(("Succeeded", "Succeeded", "Failed")))

    def _delete_job(self) -> None:
        if jobs := self._api.list(JOBS).items:
            self._api.delete(JOBS, self._random.choice(jobs)["metadata"]["name"], NAMESPACE)

    def _delete_claim(self) -> None:
        """A claim is deleted, often while it is allocated."""
        claims = self._api.list(RESOURCE_CLAIMS).items
        if claims := [claim for claim in claims if _is_half_allocated(claim)] or claims:
            self._api.delete(RESOURCE_CLAIMS, self._random.choice(claims)["metadata"]["name"], NAMESPACE)

    def _pass_time(self) -> None:
        self._cluster.advance(self._random.choice((0.5, 5.0, 30.0, 150.0)))


def _is_nominated(pod: Object) -> bool:
    return bool(pod["status"].get("nominatedNodeName")) and not is_deleting(pod)


def _is_half_allocated(claim: Object) -> bool:
    """Whether the claim has the finalizer that comes before an allocation, and no allocation yet."""
    status = claim.get("status") or {}
    return bool(claim["metadata"].get("finalizers")) and not status.get("allocation")
