"""One seeded history with an autoscaler: nodes come for pods at our gate, and go when they are empty."""

import random
from typing import Final

from controller.state import epoch_seconds
from driver.kube.api import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, AlreadyExists, NotFound, Object
from driver.kube.objects import claim_name, is_deleting, is_terminal, name_key, pod_phase
from driver.settings import AutoscalingSettings, ControllerSettings, KubeletPluginSettings, Settings
from driver.wire import allocation_from
from simulation.invariants import Violation
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import NO_FAULTS, FaultProfile, NetworkFaults
from tests.simulation.karpenter import TAINT, Karpenter, Machines
from tests.simulation.settled_checks import check_settled
from tests.system.history import cards, reproducible
from tests.system.objects import NAMESPACE, REQUESTS, device_classes, pod, template

FAULTS: Final = (
    NO_FAULTS,
    NO_FAULTS,
    FaultProfile(skip_watch=0.3),
    FaultProfile(network=NetworkFaults(conflict=0.2)),
    FaultProfile(network=NetworkFaults(lost_request=0.05, lost_response=0.05, lag=0.2)),
)
CARDS: Final = 2
"""Cards of each machine."""
WANTED: Final = ("gpu-1", "gpu-1", "gpu-2")
MOST_PODS: Final = 10
LEASE_SECONDS: Final = 20
PROTECTED_SECONDS: Final = 12.0
"""A node where devices have been held behind the gate for so long is protected, if a controller works."""
STARTED_SECONDS: Final = 120.0
"""A controller works again so long after one was killed."""


def play(seed: int) -> None:
    """Play the history of ``seed``.

    Raises:
        HistoryFailed: with the seed, the command that reproduces it, and the last lines of the event log.
    """
    history = ScalingHistory(seed)
    with reproducible(seed, history.cluster, "scaling_histories", "LODE_SCALING_SEED"):
        history.play()


class ScalingHistory:
    """The history of one seed."""

    def __init__(self, seed: int):
        self._random = random.Random(f"scaling {seed}")
        self._faults = self._random.choice(FAULTS)
        controller = ControllerSettings(lease_seconds=LEASE_SECONDS, autoscaling=AutoscalingSettings(enabled=True))
        self.machines = Machines(
            cards=CARDS,
            empty_seconds=self._random.choice((0.0, 0.0, 5.0, 30.0)),
            make=self._make,
            remove=lambda name: self.cluster.remove_node(name),
            choose=self._choose,
        )
        self.cluster = SimulatedCluster(
            seed,
            {"n1": cards("t4x2", CARDS)} if self._random.random() < 0.5 else {},
            classes=device_classes(),
            controllers=self._random.choice((1, 1, 2)),
            settings=Settings(controller=controller, kubeletplugin=KubeletPluginSettings(offer=("whole",))),
            components={"karpenter": lambda api, clock: Karpenter(api, clock, self.machines)},
        )
        self._api = self.cluster.user
        for name in dict.fromkeys(WANTED):
            self._api.create(RESOURCE_CLAIM_TEMPLATES, template(name, REQUESTS[name]))
        self._count = 0
        self._killed_at = 0.0
        self.protected = 0
        """How often a node was seen that is protected."""
        self.lost = 0
        """How often a node was chosen to be deleted where a pod had just got devices."""

    def play(self) -> None:
        """Play it.

        Raises:
            Violation: an invariant does not hold.
        """
        cluster, chance = self.cluster, self._random
        cluster.settle()
        cluster.faults = self._faults
        actions = (
            *[self._new_pod] * 6,
            *[self._pass_time] * 6,
            *[self._delete_pod] * 3,
            self._finish_pod,
            self._kill_controller,
            self._kill_karpenter,
            *[self._gates] * 3,
        )
        for _ in range(chance.randint(8, 30)):
            try:
                chance.choice(actions)()
            except (NotFound, AlreadyExists):
                continue
            cluster.run(chance.choice((0, 3, 10, 40, 200)))
            self._look()
        cluster.faults = NO_FAULTS
        cluster.access.gates_stuck = False
        cluster.settle()
        check_settled(cluster)
        self._check_pods()
        for one in self._api.list(PODS).items:
            self._api.delete(PODS, one["metadata"]["name"], NAMESPACE)
        cluster.settle()
        if left := [name for name in cluster.nodes if name in self.machines.made]:
            raise Violation(f"empty nodes are left: {left}")

    # Invariants

    def _look(self) -> None:
        annotations = [node["metadata"].get("annotations") or {} for node in self._api.list(NODES).items]
        self.protected += any(self.cluster.names.protection in one for one in annotations)

    def _make(self, name: str) -> None:
        """A node is made: there are no more without use than the pods need that wait."""
        self.cluster.add_node(name, cards("t4x2", CARDS))
        if self._faults.skip_watch or self._faults.network.lag:
            # The autoscaler may not know yet what has been given back.
            return
        claims = (one.get("status") or {} for one in self._api.list(RESOURCE_CLAIMS).items)
        used = {allocation_from(one["allocation"]).node_name for one in claims if one.get("allocation")}
        closed = [node for node in self._api.list(NODES).items if TAINT in (node["spec"].get("taints") or ())]
        unused = self.cluster.nodes.keys() - used - {node["metadata"]["name"] for node in closed}
        waiting = [one for one in self._pods() if not self._place(one)[0]]
        large = sum(one["metadata"]["name"].startswith("gpu-2") for one in waiting)
        needed = large + -(-(len(waiting) - large) // CARDS)
        if len(unused) > needed:
            self.cluster.found.append(f"{name} is made, but {needed} nodes are needed besides {sorted(used)}: {unused}")

    def _choose(self, node: str) -> None:
        """A node is about to be deleted: it is none where devices have long been held behind the gate."""
        now = self.cluster.clock.now()
        for held in self._held_on(node):
            self.lost += 1
            since = now - epoch_seconds(self._place(held)[1])
            works = self.cluster.clock.monotonic() - self._killed_at > STARTED_SECONDS
            if works and since > PROTECTED_SECONDS and not self._faults.network.lost_request:
                self.cluster.found.append(
                    f"node {node} is deleted, where {held['metadata']['name']} has held devices for {since:.0f} s"
                )

    def _held_on(self, node: str) -> list[Object]:
        return [one for one in self._pods() if not one["spec"].get("nodeName") and self._place(one)[0] == node]

    def _place(self, one: Object) -> tuple[str, str]:
        """The node of a pod's devices, and when they were allocated."""
        for entry in one["spec"].get("resourceClaims") or ():
            try:
                claim = self._api.get(RESOURCE_CLAIMS, claim_name(one, entry), NAMESPACE)
            except NotFound:
                continue
            if raw := (claim.get("status") or {}).get("allocation"):
                allocation = allocation_from(raw)
                return allocation.node_name, allocation.timestamp
        return "", ""

    def _check_pods(self) -> None:
        """Every pod has got a node in the end: there is no limit."""
        waiting = ["/".join(name_key(one)) for one in self._pods() if pod_phase(one) != "Running"]
        if waiting:
            raise Violation(f"pods wait, although nodes are made for them: {waiting}")

    # Actions

    def _pods(self) -> list[Object]:
        return [one for one in self._api.list(PODS).items if not is_deleting(one) and not is_terminal(one)]

    def _new_pod(self) -> None:
        if len(self._pods()) < MOST_PODS:
            self._count += 1
            name = self._random.choice(WANTED)
            self._api.create(PODS, pod(f"{name}-{self._count}", template_name=name))

    def _pass_time(self) -> None:
        self.cluster.advance(self._random.choice((1, 5, 15, 40, 90)))

    def _delete_pod(self) -> None:
        if pods := self._pods():
            self._api.delete(PODS, self._random.choice(pods)["metadata"]["name"], NAMESPACE)

    def _finish_pod(self) -> None:
        if running := [one for one in self._pods() if pod_phase(one) == "Running"]:
            self.cluster.end_containers(self._random.choice(running), "Succeeded")

    def _kill_controller(self) -> None:
        self.cluster.slots.kill("controller-0")
        self._killed_at = self.cluster.clock.monotonic()

    def _kill_karpenter(self) -> None:
        self.cluster.slots.kill("karpenter")

    def _gates(self) -> None:
        self.cluster.access.gates_stuck = not self.cluster.access.gates_stuck
