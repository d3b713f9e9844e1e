"""Fixtures: two workers with cards of the vendors, and the driver with what it needs to use them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from testclusters.kind import KindCluster
from tests.e2e import flavors
from tests.e2e.client import Client, eventually, eventually_none
from tests.e2e.hardware.machines import CardMachine
from tests.e2e.watcher import Watcher


@dataclass(frozen=True)
class Machines:
    """The workers with cards; the third has none."""

    nvidia: CardMachine
    ascend: CardMachine

    def __iter__(self) -> Iterator[CardMachine]:
        return iter((self.nvidia, self.ascend))

    def changed_by_claims(self) -> dict[str, str]:
        """What claims have made on the cards: empty when none is prepared."""
        found = {key: value for machine in self for key, value in machine.library.state().items()}
        changed = {key: value for key, value in found.items() if ".gi." in key or ".vdev." in key}
        changed |= {key: value for key, value in found.items() if key.endswith(".mig") and value != "0 0"}
        changed |= {key: value for key, value in found.items() if key.endswith(".computemode") and value != "0"}
        return changed | dict.fromkeys(self.nvidia.services(), "runs")


@pytest.fixture(scope="package")
def machines(client: Client, cluster: KindCluster, watcher: Watcher) -> Iterator[Machines]:
    """The machines, with the driver installed; afterwards the default flavor on workers without cards."""
    nvidia, ascend, _ = cluster.workers
    machines = Machines(CardMachine.nvidia(cluster, nvidia), CardMachine.ascend(cluster, ascend))
    before = {uuid for machine in machines for uuid in cards_of(client, machine)}
    try:
        for machine in machines:
            machine.load_driver()
        flavors.install(client, flavors.VENDORS_LIBRARIES)
        eventually(
            "all cards are published, and no others",
            lambda: (
                all(len(cards_of(client, it) - before) == it.cards for it in machines)
                and not any(cards_of(client, it) & before for it in machines)
            ),
        )
        learn_slices(client, watcher)
        yield machines
    finally:
        flavors.install(client, flavors.CONTROLLER_ALLOCATED)
        learn_slices(client, watcher)
        for machine in machines:
            machine.remove()


@pytest.fixture
def unchanged_cards(machines: Machines) -> Iterator[None]:
    """When a test and its claims have ended, the cards are as before."""
    yield
    eventually_none("nothing is left on the cards", machines.changed_by_claims)


@pytest.fixture(autouse=True)
def no_faults(unchanged_cards: None, machines: Machines, namespace: str) -> Iterator[None]:
    """When a test ends, its faults end, before its pods are deleted."""
    yield
    for machine in machines:
        machine.end_faults()


def cards_of(client: Client, machine: CardMachine) -> set[str]:
    """The uuids of the cards that a machine's slices have."""
    listed = client.list("resourceslices", fields=f"spec.nodeName={machine.node}")
    devices = [device for it in listed for device in it["spec"].get("devices", [])]
    return {device["attributes"]["uuid"]["string"] for device in devices}


def learn_slices(client: Client, watcher: Watcher) -> None:
    """Let the watcher check claims against what is published now."""
    for raw in client.list("resourceslices"):
        watcher.learn(raw)
