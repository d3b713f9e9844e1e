"""A device class that comes and goes in a history, and whose devices it has is known only then; with pods that want it.

Some of these pods share one claim, and want cards of ours besides.
"""

import random
from typing import Final

from driver.kube.api import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, AlreadyExists, NotFound
from driver.kube.objects import is_terminal
from tests.simulation.cluster import SimulatedCluster
from tests.system.objects import NAMESPACE, claim, pod, request, template
from tests.system.other_driver import DRIVER, SHARED_PORT

HISTORIES: Final = 0.2
"""In how many histories there is such a class."""
HAPPENS: Final = 0.4
"""How often it or a pod of it comes or goes after an action, in such a history."""
NAME: Final = "late.example.com"
OTHERS: Final = (
    f'device.driver == "{DRIVER}" && {SHARED_PORT}',
    f'device.driver == "{DRIVER}" && !device.allowMultipleAllocations',
)
OURS: Final = 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "gpu"'
_SHARED: Final = "late-shared"
_MOST_PODS: Final = 6


class ClassIncidents:
    """The incidents of one seed. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"a class that comes late in {seed}")
        self._happen = self._random.random() < HISTORIES
        self._cluster = cluster
        self._api = cluster.user
        self._count = 0
        if self._happen:
            self._api.create(RESOURCE_CLAIM_TEMPLATES, template("late", request(NAME)))

    def act(self) -> None:
        """Perhaps let the class, a pod or the claim that pods share come or go."""
        if not self._happen or self._random.random() >= HAPPENS:
            return
        try:
            match self._random.choice(("class", "class", "pod", "pod", "pod", "claim", "end")):
                case "class":
                    self._come_or_go()
                case "pod":
                    self._add_pod()
                case "claim":
                    self._api.create(RESOURCE_CLAIMS, claim(_SHARED, request(NAME)))
                case _:
                    self._api.delete(PODS, self._random.choice(self._pods()), NAMESPACE)
        except (NotFound, AlreadyExists, IndexError):
            return

    def undo(self) -> None:
        """Make the class another driver's, so that every pod of it goes on."""
        if self._happen:
            self._set(OTHERS[0])

    def _come_or_go(self) -> None:
        if self._random.random() < 0.4:
            self._cluster.log.note("user", "the late class goes")
            self._api.delete(DEVICE_CLASSES, NAME)
        else:
            self._set(self._random.choice((*OTHERS, *OTHERS, OURS)))

    def _set(self, expression: str) -> None:
        self._cluster.log.note("user", f"the late class selects {expression}")
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        try:
            known = self._api.get(DEVICE_CLASSES, NAME)
        except NotFound:
            self._api.create(DEVICE_CLASSES, {"metadata": {"name": NAME}, "spec": spec})
        else:
            self._api.update(DEVICE_CLASSES, {**known, "spec": spec})

    def _add_pod(self) -> None:
        if len(self._pods()) >= _MOST_PODS:
            return
        self._count += 1
        name, chance = f"late-{self._count}", self._random.random()
        if chance < 0.5:
            self._api.create(PODS, pod(name, template_name="late"))
        else:
            self._api.create(PODS, pod(name, template_name="gpu-1" if chance < 0.8 else "", missing=[_SHARED]))

    def _pods(self) -> list[str]:
        pods = self._api.list(PODS, namespace=NAMESPACE).items
        late = (one for one in pods if one["metadata"]["name"].startswith("late-") and not is_terminal(one))
        return [one["metadata"]["name"] for one in late]
