"""The actions of a history: what users and operators do, and incidents such as crashes and reboots."""

import random
from collections.abc import Callable

from driver.kube.api import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, NotFound, Object
from driver.kube.objects import is_deleting, is_terminal, name_key
from memoryapi import JOBS
from simulation.cluster import Cluster
from tests.system.objects import IMPOSSIBLE, NAMESPACE, REQUESTS, claim, job, pod, template

MOST_PODS = 24


class RandomWorkload:
    """The actions of one seed. No action waits for its effect."""

    def __init__(self, seed: int, cluster: Cluster):
        self._random = random.Random(f"users of {seed}")
        self._cluster = cluster
        self._api = cluster.user
        self._count = 0
        for name, device_request in {**REQUESTS, **IMPOSSIBLE}.items():
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
            (3, self._cordon),
            (3, self._relabel),
            (3, self._reboot),
            (6, self._crash),
            (3, self._stall),
            (2, self._compact),
            (8, self._pass_time),
        ]

    def act(self) -> None:
        """Perform one random action."""
        weights, actions = zip(*self._actions, strict=True)
        (action,) = self._random.choices(actions, weights)
        self._cluster.log.note("user", action.__name__.strip("_"))
        try:
            action()
        except NotFound:
            # Its object was deleted by another component meanwhile.
            return

    def undo_operator_changes(self) -> None:
        """Uncordon all nodes and remove the labels that this class set."""
        for node in self._cluster.nodes:
            labels = {"lode.dev/ib-cluster": None}
            self._api.patch(NODES, node, {"metadata": {"labels": labels}, "spec": {"unschedulable": None}})

    def delete_everything(self) -> None:
        """What ``kubectl delete jobs,pods,resourceclaims --all`` does."""
        for resource in (JOBS, PODS, RESOURCE_CLAIMS):
            for obj in self._api.list(resource).items:
                namespace, name = name_key(obj)
                try:
                    self._api.delete(resource, name, namespace)
                except NotFound:
                    continue

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    def _pods(self) -> list[Object]:
        return self._api.list(PODS).items

    def _random_pod(self) -> Object | None:
        pods = [pod for pod in self._pods() if not is_deleting(pod)]
        return self._random.choice(pods) if pods else None

    def new_pod(self) -> None:
        """Create a pod with a random request, unless there are many pods."""
        if len([pod for pod in self._pods() if not is_terminal(pod)]) < MOST_PODS:
            name = self._random.choice(list(REQUESTS))
            grace = self._random.choice((1, 1, 30, 120))
            self._api.create(PODS, pod(self._name(name), template_name=name, grace=grace))

    def _impossible_pod(self) -> None:
        name = self._random.choice(list(IMPOSSIBLE))
        self._api.create(PODS, pod(self._name(name), template_name=name))

    def _new_job(self) -> None:
        name = self._random.choice(list(REQUESTS))
        self._api.create(JOBS, job(self._name("job"), self._random.randint(2, 4), template_name=name))

    def _new_shared_claim(self) -> None:
        name = self._name("shared")
        self._api.create(RESOURCE_CLAIMS, claim(name, REQUESTS[self._random.choice(list(REQUESTS))]))
        for index in range(self._random.randint(1, 3)):
            self._api.create(PODS, pod(f"{name}-user-{index}", claim_name=name))

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
        if claims := self._api.list(RESOURCE_CLAIMS).items:
            self._api.delete(RESOURCE_CLAIMS, self._random.choice(claims)["metadata"]["name"], NAMESPACE)

    def _node(self) -> str:
        return self._random.choice(list(self._cluster.nodes))

    def _cordon(self) -> None:
        patch = {"spec": {"unschedulable": self._random.choice((True, None))}}
        self._api.patch(NODES, self._node(), patch)

    def _relabel(self) -> None:
        labels = {"lode.dev/ib-cluster": self._random.choice(("fabric-a", "fabric-b", None))}
        self._api.patch(NODES, self._node(), {"metadata": {"labels": labels}})

    def _reboot(self) -> None:
        self._cluster.reboot(self._node())

    def _crash(self) -> None:
        self._cluster.kill(self._random.choice(list(self._cluster.slots)), self._random.choice((0.0, 3.0, 40.0)))

    def _stall(self) -> None:
        self._cluster.stall(self._random.choice(list(self._cluster.slots)), self._random.choice((2.0, 30.0, 250.0)))

    def _compact(self) -> None:
        self._cluster.api.compact()

    def _pass_time(self) -> None:
        self._cluster.advance(self._random.choice((0.5, 5.0, 30.0, 150.0)))
