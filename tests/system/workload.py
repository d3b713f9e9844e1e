"""The actions of a history: what users and operators do, and incidents such as crashes and reboots."""

import random
from collections.abc import Callable

from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    AlreadyExists,
    NotFound,
    Object,
    Resource,
)
from driver.kube.objects import is_deleting, is_terminal, name_key
from memoryapi import JOBS
from simulation.cluster import Cluster
from tests.system.objects import (
    IMPOSSIBLE,
    NAMESPACE,
    REQUESTS,
    attribute,
    claim,
    device_classes,
    job,
    pod,
    taint_rule,
    template,
)

MOST_PODS = 24
TAINT_RULES = ("rule-0", "rule-1")
CPU = ("10m", "10m", "10m", "1", "3", "7")
"""Requests of pods; a node has 16 CPUs."""


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
            (3, self._plain_pod),
            (5, self._namesake),
            (2, self._claim_namesake),
            (5, self._taint),
            (2, self._change_class),
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
        except (NotFound, AlreadyExists):
            # Its object was deleted by another component meanwhile, or is still being deleted.
            return

    def undo_operator_changes(self) -> None:
        """Uncordon all nodes, and remove the labels, taint rules and changes of classes of this class."""
        for name in TAINT_RULES:
            self._delete_if_there(DEVICE_TAINT_RULES, name)
        for wanted in device_classes():
            self._set_class(wanted)
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
            self._api.create(PODS, self._pod(self._name(name), name))

    def _pod(self, name: str, template_name: str) -> Object:
        """A pod of random size, which kube-scheduler sometimes refuses on some nodes."""
        nodes = list(self._cluster.nodes)
        refused = self._random.sample(nodes, len(nodes) - 1) if self._random.random() < 0.15 else []
        grace = self._random.choice((1, 1, 30, 120))
        cpu = self._random.choice(CPU)
        return pod(name, template_name=template_name, grace=grace, cpu=cpu, refused_on=refused)

    def _plain_pod(self) -> None:
        """A pod without claims, which takes CPU behind the controller's back."""
        self._api.create(PODS, self._pod(self._name("plain"), ""))

    def _namesake(self) -> None:
        """As a StatefulSet does: a pod is gone, and one of its name is there at once."""
        if chosen := self._random_pod():
            name = chosen["metadata"]["name"]
            self._api.delete(PODS, name, NAMESPACE, grace_period_seconds=0)
            self._api.create(PODS, self._pod(name, self._random.choice(list(REQUESTS))))

    def _claim_namesake(self) -> None:
        """A claim of a user is gone, and one of its name with another request is there at once."""
        claims = [c for c in self._api.list(RESOURCE_CLAIMS).items if c["metadata"]["name"].startswith("shared-")]
        if claims:
            name = self._random.choice(claims)["metadata"]["name"]
            self._api.delete(RESOURCE_CLAIMS, name, NAMESPACE)
            self._api.create(RESOURCE_CLAIMS, claim(name, REQUESTS[self._random.choice(list(REQUESTS))]))

    def _taint(self) -> None:
        """Add a taint rule, let it taint something else, or remove it."""
        name = self._random.choice(TAINT_RULES)
        device = self._random.choice(("", "", "gpu-0", "gpu-0-share"))
        wanted = taint_rule(name, self._cluster.names.pool(self._node()), device)
        known = {rule["metadata"]["name"]: rule for rule in self._api.list(DEVICE_TAINT_RULES).items}
        if name not in known:
            self._api.create(DEVICE_TAINT_RULES, wanted)
        elif self._random.random() < 0.5:
            self._api.update(DEVICE_TAINT_RULES, {**known[name], "spec": wanted["spec"]})
        else:
            self._api.delete(DEVICE_TAINT_RULES, name)

    def _change_class(self) -> None:
        """Restrict a class to the first card of each node, delete it, or make it as it was."""
        wanted = self._random.choice(device_classes())
        match self._random.choice(("restrict", "restore", "delete")):
            case "delete":
                self._delete_if_there(DEVICE_CLASSES, wanted["metadata"]["name"])
            case "restrict":
                only = {"cel": {"expression": f"{attribute('index')} == 0"}}
                self._set_class({**wanted, "spec": {"selectors": [*wanted["spec"]["selectors"], only]}})
            case _:
                self._set_class(wanted)

    def _set_class(self, wanted: Object) -> None:
        name = wanted["metadata"]["name"]
        known = {known["metadata"]["name"]: known for known in self._api.list(DEVICE_CLASSES).items}
        if name not in known:
            self._api.create(DEVICE_CLASSES, wanted)
        elif known[name]["spec"] != wanted["spec"]:
            self._api.update(DEVICE_CLASSES, {**known[name], "spec": wanted["spec"]})

    def _delete_if_there(self, resource: Resource, name: str) -> None:
        if any(known["metadata"]["name"] == name for known in self._api.list(resource).items):
            self._api.delete(resource, name)

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
        self._cluster.reboot(self._node(), power_lost=self._random.random() < 0.5)

    def _crash(self) -> None:
        self._cluster.kill(self._random.choice(list(self._cluster.slots)), self._random.choice((0.0, 3.0, 40.0)))

    def _stall(self) -> None:
        self._cluster.stall(self._random.choice(list(self._cluster.slots)), self._random.choice((2.0, 30.0, 250.0)))

    def _compact(self) -> None:
        self._cluster.api.compact()

    def _pass_time(self) -> None:
        self._cluster.advance(self._random.choice((0.5, 5.0, 30.0, 150.0)))
