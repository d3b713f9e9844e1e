"""One seeded history in which the operator names a driver of others: until then kube-scheduler allocates its devices.

kube-scheduler may have allocations on their way at that moment, API servers act on the new policies a moment later, and
controllers start with the new settings one by one. No device of any driver may ever be in two hands.

In most histories the dangerous order of events is near: one network card is free, kube-scheduler's write of its
allocation to one claim is on its way, and other claims want it, too. It arrives when the new controller has read the
claims, and perhaps before API servers act on the policies.
"""

import random
from contextlib import suppress
from typing import Final

from driver.kube.api import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    AlreadyExists,
    ApiError,
    NotFound,
    Object,
)
from driver.kube.objects import is_terminal, pod_phase
from driver.names import NUMA_NODE
from driver.settings import ControllerSettings, KubeletPluginSettings, Settings
from simulation.invariants import Violation
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import NO_FAULTS, Crash, FaultProfile, NetworkFaults
from tests.simulation.named_drivers import DriverPolicies
from tests.simulation.programs import SimulatedController
from tests.simulation.settled_checks import check_settled
from tests.system.history import cards, reproducible
from tests.system.objects import NAMESPACE, REQUESTS, claim, device_classes, devices, pod, request, template
from tests.system.other_driver import DRIVER, device_class, slices

FAULTS: Final = (
    NO_FAULTS,
    FaultProfile(interleave=0.3),
    FaultProfile(skip_watch=0.3, interleave=0.2),
    FaultProfile(crash=0.004, interleave=0.2),
    FaultProfile(network=NetworkFaults(conflict=0.2, lag=0.3), interleave=0.2),
    FaultProfile(network=NetworkFaults(slow=0.4, hang=0.1), interleave=0.2),
    FaultProfile(network=NetworkFaults(lost_request=0.05, lost_response=0.05), skip_watch=0.3),
    FaultProfile(late_renewal=0.3, interleave=0.2, skip_watch=0.2),
)
LEASE_SECONDS: Final = 20
LONGEST_LAG: Final = 8.0
"""Seconds until an API server acts on a policy; less than between two looks of a controller."""
RACES: Final = 0.8
"""How many of the histories have an allocation on its way when the driver is named."""
LONGEST_FLIGHT: Final = 50.0
"""After so many seconds a write has arrived: an API server gives up a request after a minute."""
STALLED_SECONDS: Final = 100.0
MOST_PODS: Final = 14
_PAUSES: Final = (0.0, 0.0, 1.0, 1.0, 15.0)
"""Seconds after which a program starts, or goes on; often it is that of another one."""

NIC: Final = request(DRIVER, name="nic", selector="!device.allowMultipleAllocations")
PART: Final = request(DRIVER, name="part", selector="device.allowMultipleAllocations", bandwidth="4")
CARD: Final = request("gpu.lode.dev", name="card")
EITHER: Final = {
    "name": "any",
    "firstAvailable": [
        {"name": "nic", "deviceClassName": DRIVER, "selectors": NIC["exactly"]["selectors"]},
        {"name": "card", "deviceClassName": "gpu.lode.dev"},
    ],
}
WANTED: Final[dict[str, Object]] = {
    "card": REQUESTS["gpu-1"],
    "nic": devices(NIC),
    "part": devices(PART),
    "card-and-nic": devices(CARD, NIC),
    "card-and-part": devices(CARD, PART),
    "card-near-nic": {
        **devices(CARD, NIC),
        "constraints": [{"requests": ["card", "nic"], "matchAttribute": NUMA_NODE}],
    },
    "either": devices(EITHER),
}
"""The templates of pods; most ask for devices of two drivers."""


def play(seed: int) -> None:
    """Play the history of ``seed``.

    Raises:
        HistoryFailed: with the seed, the command that reproduces it, and the last lines of the event log.
    """
    history = NamingHistory(seed)
    with reproducible(seed, history.cluster, "naming_histories", "LODE_NAMING_SEED"):
        history.play()


class NamingHistory:
    """The history of one seed.

    Attributes:
        before: the claims that kube-scheduler had allocated when the policies named the driver, by UID: each with the
            time of its allocation and the names of its pods.
        mixed: how many claims had devices of two drivers in the end.
        near: how many of these had them of one NUMA node, as they asked.
    """

    def __init__(self, seed: int):
        self._random = chance = random.Random(f"naming {seed}")
        self._faults = chance.choice(FAULTS)
        of_plugin = KubeletPluginSettings(offer=("whole",))
        unnamed = Settings(controller=ControllerSettings(lease_seconds=LEASE_SECONDS), kubeletplugin=of_plugin)
        named = ControllerSettings(lease_seconds=LEASE_SECONDS, also_allocates=(DRIVER,))
        self._named = unnamed.model_copy(update={"controller": named})
        nodes = {name: cards("l40sx2", chance.choice((1, 2))) for name in ("n1", "n2")}
        controllers = 2 if self._faults.late_renewal else chance.choice((1, 2))
        self.cluster = SimulatedCluster(
            seed, nodes, classes=[*device_classes(), device_class()], controllers=controllers, settings=self._named
        )
        # The names of the cluster have the driver from the beginning, its programs and policies do not.
        self.policies = self.cluster.policies = DriverPolicies(self.cluster.names, self.cluster.clock)
        self.cluster.settings = unnamed
        self._api, self._count = self.cluster.user, 0
        self.before: dict[str, tuple[str, set[str]]] = {}
        self.mixed = 0
        self.near = 0
        for name, wanted in WANTED.items():
            self._api.create(RESOURCE_CLAIM_TEMPLATES, template(name, wanted))

    def play(self) -> None:
        """Play it.

        Raises:
            Violation: an invariant does not hold.
        """
        cluster, chance = self.cluster, self._random
        cluster.settle()
        for part in slices():
            self._api.create(RESOURCE_SLICES, part)
        self._publish_nics()
        cluster.faults = self._faults
        actions = chance.randint(10, 26)
        named_at = chance.randint(2, actions - 4)
        for number in range(actions):
            if number == named_at:
                self._name()
            self._publish_nics()
            self._act()
            for _ in range(chance.choice((0, 3, 10, 40, 200))):
                if not cluster.step():
                    break
            if self.policies.unseen_until <= cluster.clock.monotonic():
                self._end_silence()
        self._end_silence()
        cluster.faults = NO_FAULTS
        cluster.settle()
        if self._publish_nics():
            cluster.settle()
        check_settled(cluster)
        self._check_end()
        for one in self._api.list(PODS).items:
            self._api.delete(PODS, one["metadata"]["name"], NAMESPACE)
        cluster.settle()
        self._check_nothing_is_held()

    # What happens

    def _publish_nics(self) -> bool:
        """The driver publishes the network cards of nodes: a kubelet that starts has deleted all slices of its node.

        Returns:
            Whether any were missing.
        """
        published = {one["metadata"]["name"] for one in self.cluster.api.list(RESOURCE_SLICES).items}
        missing = [part for part in map(_nics, self.cluster.nodes) if part["metadata"]["name"] not in published]
        for part in missing:
            self._api.create(RESOURCE_SLICES, part)
        return bool(missing)

    def _name(self) -> None:
        """The operator names the driver: the policies are stored, and each controller starts anew some time later."""
        cluster, chance = self.cluster, self._random
        if chance.random() < RACES:
            self._leave_one_card_for_many()
        else:
            cluster.slots.stall("kube-scheduler", chance.choice(_PAUSES))
            for _ in range(chance.choice((0, 2, 4))):
                self._new_pod("nic")
            cluster.run(chance.choice((0, 60, 300)))
        self.before = self._holders()
        cluster.log.note("operator", f"names {DRIVER}")
        order = chance.random() < 0.7
        if order:
            self._store()
            self._pass_steps()
        cluster.settings = self._named
        for name in [name for name in cluster.slots if name.startswith("controller-")]:
            self._restart(name)
            self._pass_steps()
        if not order:
            self._store()

    def _leave_one_card_for_many(self) -> None:
        """kube-scheduler has chosen the last free network card for one of several claims, and its write is slow."""
        cluster, policies = self.cluster, self.policies
        for _ in range(self._free_nics() - 1):
            self._pod_of("nic")
        cluster.advance(4.0)
        policies.catches = True
        self._pod_of("nic")
        for _ in range(8):
            self._run_until_caught()
        policies.catches = False
        if policies.on_its_way is not None:
            cluster.late.delay(*policies.on_its_way, LONGEST_FLIGHT)
        # It waits for the answer.
        cluster.slots.stall("kube-scheduler", STALLED_SECONDS)
        for wanted in self._random.choices(("nic", "card-and-nic", "card-near-nic"), k=self._random.randint(1, 3)):
            self._pod_of(wanted)

    def _run_until_caught(self) -> None:
        while self.policies.on_its_way is None and self.cluster.step():
            pass
        if self.policies.on_its_way is None:
            self.cluster.advance(0.5)

    def _store(self) -> None:
        """The policies are stored; what is on its way arrives before API servers act on them, or soon after."""
        cluster, chance, policies = self.cluster, self._random, self.policies
        lag = chance.choice((LONGEST_LAG, chance.uniform(0, LONGEST_LAG)))
        policies.store(lag)
        if chance.random() < 0.7:
            policies.unseen_until = cluster.clock.monotonic() + chance.uniform(LONGEST_LAG, 40.0)
        if policies.on_its_way is not None:
            arrives = chance.choice((0.9 * lag, 0.9 * lag, chance.uniform(0, lag + 2.0)))
            cluster.late.cancel(policies.on_its_way[0])
            cluster.late.delay(*policies.on_its_way, arrives)
            cluster.slots.stall("kube-scheduler", arrives + 0.1)

    def _end_silence(self) -> None:
        """Watches of claims tell controllers everything again."""
        if self.policies.unseen_until:
            self.policies.unseen_until = 0.0
            for slot in self.cluster.slots.values():
                slot.forget_reading()

    def _free_nics(self) -> int:
        """How many network cards for one pod alone no claim holds."""
        parts = [part["spec"] for part in self._api.list(RESOURCE_SLICES).items if part["spec"]["driver"] == DRIVER]
        cards = {
            (part["pool"]["name"], one["name"])
            for part in parts
            for one in part["devices"]
            if not one.get("allowMultipleAllocations")
        }
        held = {
            (it["pool"], it["device"])
            for one in self._api.list(RESOURCE_CLAIMS).items
            for it in _results(one)
            if it["driver"] == DRIVER
        }
        return len(cards - held)

    def _restart(self, name: str) -> None:
        """A rollout ends the controller and starts it anew; most release their Lease in time."""
        program = self.cluster.slots[name].program
        if isinstance(program, SimulatedController) and self._random.random() < 0.8:
            with suppress(ApiError, Crash):
                program.end()
        self.cluster.slots.kill(name, self._random.choice(_PAUSES))

    def _pass_steps(self) -> None:
        for _ in range(self._random.choice((0, 1, 5, 30))):
            if not self.cluster.step():
                return

    def _act(self) -> None:
        actions = (
            *[self._new_pod] * 7,
            *[self._pass_time] * 5,
            *[self._delete_pod] * 3,
            self._new_pod_beside,
            self._new_shared_claim,
            self._kill,
        )
        try:
            self._random.choice(actions)()
        except (NotFound, AlreadyExists):
            return

    def _new_pod(self, wanted: str = "") -> None:
        if len(self._api.list(PODS).items) < MOST_PODS:
            self._pod_of(wanted or self._random.choice(sorted(WANTED)))

    def _pod_of(self, template_name: str) -> None:
        self._count += 1
        self._api.create(PODS, pod(f"p{self._count}", template_name=template_name))

    def _new_pod_beside(self) -> None:
        """A pod with two claims: a card, and a network card or a part of one."""
        self._count += 1
        beside = self._random.choice(("nic", "part"))
        self._api.create(PODS, pod(f"p{self._count}", template_name="card", beside=beside))

    def _new_shared_claim(self) -> None:
        """Two pods with one claim of the driver."""
        self._count += 1
        name = f"shared-{self._count}"
        self._api.create(RESOURCE_CLAIMS, claim(name, devices(PART)))
        for which in "ab":
            self._api.create(PODS, pod(f"p{self._count}{which}", claim_name=name))

    def _delete_pod(self) -> None:
        if pods := self._api.list(PODS).items:
            self._api.delete(PODS, self._random.choice(pods)["metadata"]["name"], NAMESPACE)

    def _pass_time(self) -> None:
        self.cluster.advance(self._random.choice((0.5, 2.0, 6.0, 12.0, 40.0)))

    def _kill(self) -> None:
        names = [name for name in self.cluster.slots if name.startswith(("controller-", "kube-scheduler"))]
        self.cluster.slots.kill(self._random.choice(names), self._random.choice((0.0, 5.0, 30.0)))

    # Invariants

    def _holders(self) -> dict[str, tuple[str, set[str]]]:
        """The claims with devices of the driver, by UID, each with when they were allocated and the names of its pods.

        A pod that is being deleted may end at any time, and another one that shares the claim gets devices anew.
        """
        return {
            one["metadata"]["uid"]: (one["status"]["allocation"]["allocationTimestamp"], _users(one))
            for one in self._api.list(RESOURCE_CLAIMS).items
            if any(it["driver"] == DRIVER for it in _results(one))
        }

    def _check_end(self) -> None:
        """What was allocated before is as it was while its pod is there, and no pod that waits could be served."""
        running = {one["metadata"]["name"] for one in self._api.list(PODS).items if pod_phase(one) == "Running"}
        for one in self._api.list(RESOURCE_CLAIMS).items:
            metadata, status = one["metadata"], one.get("status") or {}
            at = (status.get("allocation") or {}).get("allocationTimestamp")
            before, users = self.before.get(metadata["uid"], (at, set()))
            if users & _users(one) & running and at != before:
                raise Violation(f"{metadata['name']} was allocated anew under a pod that runs")
            self.mixed += len({it["driver"] for it in _results(one)}) > 1
            self.near += bool(_results(one) and one["spec"]["devices"].get("constraints"))
        for one in self._api.list(PODS).items:
            if is_terminal(one) or pod_phase(one) == "Running":
                continue
            conditions = {it["type"]: it for it in one["status"].get("conditions") or ()}
            reason = conditions.get(f"{self.cluster.names.driver}/Allocated", {}).get("reason")
            if reason != "Unallocatable":
                raise Violation(f"pod {one['metadata']['name']} waits, with {reason}: {conditions}")

    def _check_nothing_is_held(self) -> None:
        if left := self._holders():
            raise Violation(f"claims hold devices of {DRIVER} without a pod: {left}")


def _results(of: Object) -> list[Object]:
    """What a claim has."""
    allocation = (of.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def _users(of: Object) -> set[str]:
    """The names of the pods that a claim is reserved for."""
    return {user["name"] for user in (of.get("status") or {}).get("reservedFor") or ()}


def _nics(node: str) -> Object:
    """Two network cards of a node, each beside the card of one NUMA node."""
    attributes = [{NUMA_NODE: {"int": number}} for number in (0, 1)]
    found = [{"name": f"nic-{at}", "attributes": some} for at, some in enumerate(attributes)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{DRIVER}-of-{node}"},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": found},
    }
