"""Pods that name templates on demand, right and wrong ones, in a history; and others who make and delete templates."""

import random
from collections.abc import Sequence
from typing import Final

from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, AlreadyExists, NotFound, Object
from driver.kube.objects import is_terminal
from driver.settings import TemplateSettings
from tests.simulation.cluster import SimulatedCluster
from tests.system.objects import NAMESPACE, pod, request, template

SETTINGS: Final = TemplateSettings(per_namespace=3, unused_seconds=60)
"""More names are used than a namespace may have, and templates go before the minute in which nothing may be written."""
HISTORIES: Final = 0.25
"""In how many histories pods name templates on demand."""
HAPPENS: Final = 0.4
"""How often one comes, or something is done to templates, after an action."""
RIGHT: Final = ("lode.gpu", "lode.gpu", "lode.2-gpu", "lode-adopt.nvidia.n1", "lode-adopt.hami.n1-m3000", "lode.npu")
WRONG: Final = (
    "lode.unicorn",
    "lode." + "9" * 200,
    "lode-adopt.hami.n" + "9" * 200,
    "lode-adopt." + "n9-" * 70 + "n9",
    "lode-adopt.nobody.n1",
)
MADE_BY_OTHERS: Final = ("lode.h100", "lode-adopt.nvidia.n3")
"""Made before the policy that reserves such names."""
_MOST_PODS: Final = 8


def templates_on_demand(seed: int) -> bool:
    """Whether pods of the history name templates on demand."""
    return random.Random(f"claim templates that pods name in {seed}").random() < HISTORIES


class TemplateIncidents:
    """The incidents of one seed. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"pods with templates on demand in {seed}")
        self._cluster = cluster
        self._happen = templates_on_demand(seed)
        self._count = 0

    def act(self) -> None:
        """Perhaps make a pod that names one, or make or delete a template."""
        if not self._happen or self._random.random() >= HAPPENS:
            return
        chance = self._random.random()
        try:
            if chance < 0.6:
                self._add_pod(RIGHT)
            elif chance < 0.7:
                self._add_pod((*WRONG, *MADE_BY_OTHERS))
            elif chance < 0.8:
                self._cluster.user.create(
                    RESOURCE_CLAIM_TEMPLATES, template(self._random.choice(MADE_BY_OTHERS), request("gpu.lode.dev"))
                )
            elif chance < 0.9:
                self._delete(RIGHT)
            else:
                self._delete_pod()
        except (NotFound, AlreadyExists):
            return

    def _add_pod(self, names: Sequence[str]) -> None:
        if len(self._pods()) < _MOST_PODS:
            self._count += 1
            name = self._random.choice(names)
            self._cluster.log.note("user", f"makes a pod that names {name[:40]}")
            self._cluster.user.create(PODS, pod(f"on-demand-{self._count}", template_name=name))

    def _delete(self, names: Sequence[str]) -> None:
        name = self._random.choice(names)
        self._cluster.user.delete(RESOURCE_CLAIM_TEMPLATES, name, NAMESPACE)
        self._cluster.log.note("user", f"deleted the template {name}")

    def _delete_pod(self) -> None:
        if pods := self._pods():
            self._cluster.user.delete(PODS, self._random.choice(pods)["metadata"]["name"], NAMESPACE)

    def _pods(self) -> list[Object]:
        pods = self._cluster.user.list(PODS, namespace=NAMESPACE).items
        return [one for one in pods if one["metadata"]["name"].startswith("on-demand-") and not is_terminal(one)]
