"""One seeded history of preemption: users and gangs of several priorities, budgets, long grace periods, crashes."""

import random
from contextlib import suppress
from typing import Final

from controller.reconcile.history import RAREST_RESORT_SECONDS
from driver.kube.api import (
    EVENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    AlreadyExists,
    NotFound,
    Object,
)
from driver.kube.objects import is_deleting, is_terminal, name_key, pod_phase
from driver.settings import ControllerSettings, PreemptionSettings, Settings
from simulation.invariants import Violation
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.disruption_controller import DisruptionController
from tests.simulation.eviction_checks import GANG, LEAST
from tests.simulation.faults import NO_FAULTS, FaultProfile, NetworkFaults
from tests.simulation.gang_checks import check_gangs
from tests.simulation.settled_checks import check_empty, check_no_writes_without_news, check_settled
from tests.simulation.unserved_checks import check_all_are_served
from tests.system.answer_incidents import AnswerIncidents
from tests.system.eviction_incidents import EvictionIncidents
from tests.system.gangs import gang_template
from tests.system.history import cards, reproducible
from tests.system.namespace_incidents import NamespaceIncidents
from tests.system.objects import NAMESPACE, REQUESTS, device_classes, pod, template

LAYOUTS: Final = (
    {"n1": ("a100x4", 2)},
    {"n1": ("a100x4", 4)},
    {"n1": ("t4x2", 2), "n2": ("t4x2", 2)},
    {"n1": ("a100x4", 2), "n2": ("t4x2", 1), "n3": ("t4x2", 2)},
)
ALIKE: Final = {"n1": ("t4x2", 1), "n2": ("t4x2", 1), "n3": ("t4x2", 1)}
BURSTS: Final = 0.1
"""The part of the histories that begin with equal preemptors on nodes that are alike and full; all others stay the
same."""
FAULTS: Final = (
    NO_FAULTS,
    NO_FAULTS,
    FaultProfile(skip_watch=0.3),
    FaultProfile(crash=0.01, interleave=0.1),
    FaultProfile(crash=0.03, skip_watch=0.2),
    FaultProfile(network=NetworkFaults(conflict=0.2, lost_response=0.1), interleave=0.1),
    FaultProfile(network=NetworkFaults(busy=0.1, lost_request=0.1), crash=0.01),
    FaultProfile(network=NetworkFaults(overtaken=0.1, lag=0.3)),
)
PRIORITIES: Final = (0, 0, 10, 10, 100, 100)
GRACES: Final = (1, 1, 30, 120, 600, 1800)
WANTED: Final = ("gpu-1", "gpu-1", "gpu-2", "gpu-4", "share-small", "share-large", "share-all", "mig-large")
WANTED_BY_GANGS: Final = ("gpu-1", "gpu-1", "gpu-2", "share-large")
MOST_PODS: Final = 12
BURST_SECONDS: Final = 10.0
"""In which pods are placed, and in which victims end and their preemptors are served."""
APPS: Final = ("a", "b")


def play(seed: int) -> None:
    """Play the history of ``seed``.

    Raises:
        HistoryFailed: with the seed, the command that reproduces it, and the last lines of the event log.
    """
    history = PreemptingHistory(seed)
    with reproducible(seed, history.cluster, "preemption_histories", "LODE_PREEMPTION_SEED"):
        history.play()


class PreemptingHistory:
    """The history of one seed."""

    def __init__(self, seed: int):
        self._seed = seed
        self._random = random.Random(f"preempting {seed}")
        self._faults = self._random.choice(FAULTS)
        layout = self._random.choice(LAYOUTS)
        self._begins_with_burst = random.Random(f"a burst in {seed}").random() < BURSTS
        if self._begins_with_burst:
            layout = ALIKE
        section = ControllerSettings(lease_seconds=100, preemption=PreemptionSettings(enabled=True))
        self.cluster = SimulatedCluster(
            seed,
            {name: cards(*profile) for name, profile in layout.items()},
            classes=device_classes(),
            controllers=self._random.choice((1, 1, 2)),
            settings=Settings(controller=section),
            components={"disruption-controller": DisruptionController},
        )
        self._api = self.cluster.user
        for name in dict.fromkeys(WANTED):
            self._api.create(RESOURCE_CLAIM_TEMPLATES, template(name, REQUESTS[name]))
        self._count = 0

    def play(self) -> None:
        """Play it.

        Raises:
            Violation: an invariant does not hold.
        """
        cluster, chance, answers = self.cluster, self._random, AnswerIncidents(self._seed, self.cluster)
        keeping = EvictionIncidents(self._seed, self.cluster)
        others = NamespaceIncidents(self._seed, self.cluster, 37, {*WANTED}, PRIORITIES)
        cluster.settle()
        published = cluster.invariants.pools()
        if self._begins_with_burst:
            self._burst()
        for _ in range(chance.randint(3, 8)):
            self._new_pod(most=0)
        cluster.advance(chance.choice((5, 30)))
        cluster.faults = self._faults
        actions = (
            *[self._new_pod] * 8,
            *[self._new_gang] * 3,
            *[self._pass_time] * 4,
            *[self._delete_pod] * 2,
            self._delete_preemptor,
            self._delete_gang,
            self._finish_pod,
            self._change_budget,
            self._kill_controller,
        )
        for _ in range(chance.randint(8, 30)):
            try:
                chance.choice(actions)()
            except (NotFound, AlreadyExists):
                continue
            answers.act()
            keeping.act()
            others.act()
            cluster.run(chance.choice((0, 3, 10, 40, 200)))
            self._check_evictions()
        cluster.faults = NO_FAULTS
        answers.undo()
        keeping.pass_by()
        self._check_settled(refused=answers.happen or keeping.happen)
        if keeping.happen:
            keeping.undo()
            self._check_settled(refused=True)
        check_no_writes_without_news(cluster)
        self._delete_everything()
        cluster.settle()
        check_empty(cluster, published)

    def _check_settled(self, *, refused: bool) -> None:
        """Let the cluster settle; nobody was evicted in vain, and everybody who can be served is.

        Args:
            refused: whether writes or evictions were refused. Then nobody is evicted for a while for a pod whose
                placement it was, and a pod is spared whose eviction it was.
        """
        cluster = self.cluster
        cluster.settle()
        if refused:
            cluster.idle(RAREST_RESORT_SECONDS)
            cluster.settle()
        check_settled(cluster)
        check_gangs(cluster)
        self._check_evictions()
        if in_vain := [*cluster.evictions.in_vain()]:
            raise Violation("\n".join(in_vain))
        check_all_are_served(cluster, refused=refused or self._faults is not NO_FAULTS)

    def _check_evictions(self) -> None:
        self.cluster.evictions.look()
        if self.cluster.evictions.found:
            raise Violation("\n".join(self.cluster.evictions.found))
        for event in self._api.list(EVENTS, limit=0).items:
            if event["reason"] == "DoubleUse":
                # Room is kept while its victims hold it, and nobody allocates but the controller.
                raise Violation(f"{event['involvedObject']['name']}: {event['message']}")

    # Actions

    def _pods(self) -> list[Object]:
        return [pod for pod in self._api.list(PODS).items if not is_deleting(pod) and not is_terminal(pod)]

    def _new_pod(self, most: int = 1000) -> None:
        if len(self._pods()) >= MOST_PODS:
            return
        self._count += 1
        chance, name = self._random, self._random.choice(WANTED)
        made = pod(
            f"{name}-{self._count}",
            template_name=name,
            grace=chance.choice(GRACES),
            priority=min(most, chance.choice(PRIORITIES)),
            cpu=chance.choice(("10m", "10m", "10m", "4")),
        )
        made["metadata"]["labels"] = {"app": chance.choice(APPS)}
        if chance.random() < 0.15:
            made["spec"]["preemptionPolicy"] = "Never"
        self._api.create(PODS, made)

    def _burst(self) -> None:
        """Equal pods preempt others at once: within a grace period and a few seconds, all of them are served."""
        for priority in (0, max(PRIORITIES)):
            for _ in ALIKE:
                self._count += 1
                made = pod(f"gpu-1-{self._count}", template_name="gpu-1", grace=1, priority=priority)
                made["metadata"]["labels"] = {"app": "burst"}
                self._api.create(PODS, made)
            self.cluster.advance(BURST_SECONDS)
        check_all_are_served(self.cluster, refused=False)

    def _new_gang(self) -> None:
        """Pods without an owner that start together, at least some of them."""
        chance, size = self._random, self._random.choice((2, 2, 3, 4))
        if len(self._pods()) + size > MOST_PODS:
            return
        self._count += 1
        name, least = f"gang-{self._count}", chance.choice((size, size, chance.randint(1, size)))
        gang: Object = {"name": name, "minAvailable": least}
        self._api.create(
            RESOURCE_CLAIM_TEMPLATES, gang_template(name, REQUESTS[chance.choice(WANTED_BY_GANGS)], gang, [])
        )
        grace, priority = chance.choice(GRACES), chance.choice(PRIORITIES)
        for number in range(size):
            made = pod(f"{name}-{number}", template_name=name, grace=grace, priority=priority)
            made["metadata"]["labels"] = {"app": chance.choice(APPS), GANG: name, LEAST: str(least)}
            self._api.create(PODS, made)

    def _delete_gang(self) -> None:
        gangs = [one for one in self._pods() if GANG in one["metadata"]["labels"]]
        if gangs:
            lost = self._random.choice(gangs)["metadata"]["labels"][GANG]
            for one in gangs:
                if one["metadata"]["labels"][GANG] == lost:
                    self._api.delete(PODS, one["metadata"]["name"], NAMESPACE)

    def _pass_time(self) -> None:
        self.cluster.advance(self._random.choice((1, 5, 40, 90, 200)))

    def _delete_pod(self) -> None:
        if pods := self._pods():
            self._api.delete(PODS, self._random.choice(pods)["metadata"]["name"], NAMESPACE)

    def _delete_preemptor(self) -> None:
        waiting = [one for one in self._pods() if one["status"].get("nominatedNodeName")]
        gated = [one for one in waiting if one["spec"].get("schedulingGates")]
        if gated:
            self._api.delete(PODS, self._random.choice(gated)["metadata"]["name"], NAMESPACE)

    def _finish_pod(self) -> None:
        if running := [one for one in self._pods() if pod_phase(one) == "Running"]:
            self.cluster.end_containers(self._random.choice(running), self._random.choice(("Succeeded", "Failed")))

    def _change_budget(self) -> None:
        name, least = self._random.choice(APPS), self._random.choice((0, 1, 1, 2, 5))
        with suppress(NotFound):
            self._api.delete(POD_DISRUPTION_BUDGETS, name, NAMESPACE)
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": name}}}
        self._api.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    def _kill_controller(self) -> None:
        self.cluster.slots.kill("controller-0")

    def _delete_everything(self) -> None:
        for one in self._api.list(PODS).items:
            namespace, name = name_key(one)
            self._api.delete(PODS, name, namespace)
