"""What happens to the cards of nodes, in a history."""

import random
from collections.abc import Callable, Iterable
from typing import assert_never

from driver.kube.api import EVENTS
from driver.kube.objects import is_deleting, is_terminal, name_key
from driver.model import DeviceId
from kubeletplugin.hardware import Action, Card
from kubeletplugin.hardware.actions import MigInstance, VnpuInstance
from kubeletplugin.hardware.vendors import facts_of
from kubeletplugin.offers import Recorded
from kubeletplugin.prepare.checkpoint import Checkpoint, CorruptCheckpoint
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.publish.publisher import HEALTH_SECONDS
from simulation.invariants import Violation
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.hardware import NodeHardware
from tests.simulation.settled_checks import LONGEST_BOOT_SECONDS

RECOVERY_SECONDS = 1.0
"""How long a card that failed once must work before it counts as healthy (``kubeletplugin.recoverySeconds``)."""
RECOVERED_SECONDS = 200.0
"""How long a card works until it counts as healthy again, even if it failed seven times."""
UNHEALTHY = "DeviceUnhealthy"
"""The reason of the Event."""
LAST_ID = 31
"""An operator chooses the ids of vNPUs from above, and the plugin from below."""


class CardIncidents:
    """The actions of one seed. Some card of some node fails, is lost, hangs, is busy, is divided by
    an operator, or has another number after a reboot."""

    def __init__(self, randomness: random.Random, cluster: SimulatedCluster):
        self._random = randomness
        self._cluster = cluster
        self.actions: list[tuple[int, Callable[[], None]]] = [
            (5, self._fails),
            (4, self._is_lost),
            (3, self._hangs),
            (3, self._is_busy),
            (3, self._is_divided),
            (2, self._are_numbered_anew),
        ]

    def _fails(self) -> None:
        """A card fails, or is mended."""
        _, hardware = self._some()
        card = self._random.choice(hardware.cards_of_node.cards()).name
        if hardware.faults.pop(card, None) is None:
            hardware.faults[card] = "Xid 79"

    def _is_lost(self) -> None:
        """A card falls off the bus, or is found again."""
        _, hardware = self._some()
        hardware.lost ^= {self._random.choice(hardware.cards_of_node.cards()).name}

    def _hangs(self) -> None:
        """Questions about a card have no answer any more, or have one again."""
        _, hardware = self._some()
        hardware.hanging ^= {self._random.choice(hardware.cards_of_node.cards()).name}

    def _is_busy(self) -> None:
        """A process starts to use a partition, or the one that does ends."""
        _, hardware = self._some()
        state = hardware.store.load()
        partitions = [key for key, (made, _) in state.existing.items() if isinstance(made, MigInstance | VnpuInstance)]
        if partitions:
            key = self._random.choice(partitions)
            hardware.set_in_use(key, in_use=key not in state.in_use)

    def _is_divided(self) -> None:
        """An operator makes a partition on a card that no claim has whole or shared, or removes one."""
        node, hardware = self._some()
        recorded = _recorded(self._cluster, node)
        if hardware.foreign and self._random.random() < 0.5:
            hardware.remove_foreign(self._random.choice(sorted(hardware.foreign)), recorded.keys)
            return
        card = self._random.choice(hardware.cards_of_node.cards())
        action = self._partition(card)
        if action is not None and not _is_used(card, action, recorded):
            hardware.make_foreign(action)

    def _are_numbered_anew(self) -> None:
        """The next start of the node finds its cards in another order."""
        _, hardware = self._some()
        hardware.moves = self._random.randrange(8)

    def _partition(self, card: Card) -> Action | None:
        if card.scheme is None:
            return None
        part = self._random.choice(card.scheme.partitions)
        match kind := facts_of(card.vendor).partition_kind:
            case "mig":
                return MigInstance(card.uuid, part.profile, part.slot)
            case "vnpu":
                return VnpuInstance(card.uuid, part.profile, 32 * card.index + LAST_ID)
            case None:
                return None
            case _:
                assert_never(kind)

    def _some(self) -> tuple[str, NodeHardware]:
        node = self._random.choice(list(self._cluster.nodes))
        return node, self._cluster.hardware[node]


def _is_used(card: Card, action: Action, recorded: Recorded) -> bool:
    """Whether a claim has the card whole or shared, or what the action would make."""
    return action.key in recorded.keys or bool({card.name, card.share_name} & recorded.devices)


def _recorded(cluster: SimulatedCluster, node: str) -> Recorded:
    storage = ClaimStorage(cluster.nodes[node].files, cluster.settings)
    try:
        return storage.load().recorded
    except CorruptCheckpoint as error:
        found = {claim.plan.ref.uid: claim for claim in (*storage.to_undo(), *storage.records(""))}
        return Checkpoint({**found, **error.left.claims}).recorded


def number_cards_as_at_first(cluster: SimulatedCluster) -> None:
    """Nodes whose cards have other numbers start once more, and find them in the first order."""
    for node, hardware in cluster.hardware.items():
        hardware.moves = -hardware.moved
        if hardware.moves:
            cluster.reboot(node)


def mend_cards(cluster: SimulatedCluster) -> None:
    """All cards answer, and operators remove their partitions; faults stay."""
    for node, hardware in cluster.hardware.items():
        hardware.mend(_recorded(cluster, node).keys)


def check_lost_cards(cluster: SimulatedCluster) -> None:
    """Lose a card of each node: it is published as unhealthy, by a plugin that starts anew, too, and its pods are told.

    A pod whose claim tolerates the taint may get such a card meanwhile. Its kubelet goes on trying to start it, so such
    a cluster settles only when the cards are found again.

    Raises:
        Violation: lists the cards that are not, or that still are long after they were found again, and the pods.
    """
    lost = {node: hardware.cards_of_node.cards()[0] for node, hardware in cluster.hardware.items()}
    for node, card in lost.items():
        cluster.hardware[node].lost.add(card.name)
    cluster.idle(2 * HEALTH_SECONDS)
    for node in lost:
        cluster.slots.kill(f"plugin-{node}")
    cluster.idle(LONGEST_BOOT_SECONDS)
    untold = [f"pod {pod} is not told that its card is lost" for pod in _untold(cluster, lost.values())]
    healthy = [
        f"{node}: {card.name} is lost and not published as unhealthy"
        for node, card in lost.items()
        if not published_health(cluster, card) or False in published_health(cluster, card)
    ]
    for node, card in lost.items():
        cluster.hardware[node].lost.discard(card.name)
    cluster.idle(RECOVERED_SECONDS)
    cluster.settle()
    unhealthy = [
        f"{node}: {card.name} works and is published as unhealthy"
        for node, card in lost.items()
        if card.name not in cluster.hardware[node].faults and True in published_health(cluster, card)
    ]
    if untold or healthy or unhealthy:
        raise Violation("\n".join([*untold, *healthy, *unhealthy]))


def _untold(cluster: SimulatedCluster, lost: Iterable[Card]) -> list[str]:
    """The pods whose claims have devices of these cards, and that no Event of the controller says it to."""
    uuid, uuids = cluster.names.attribute("uuid"), {card.uuid for card in lost}
    devices = {
        DeviceId(part.driver, part.pool, device.name)
        for part in cluster.invariants.slices().values()
        for device in part.devices
        if device.attributes.get(uuid) in uuids
    }
    using = {
        consumer.uid
        for claim in cluster.invariants.claims()
        if claim.allocation and any(result.device in devices for result in claim.allocation.results)
        for consumer in claim.reserved_for
    }
    told = {
        event["involvedObject"]["uid"]
        for event in cluster.api.list(EVENTS, limit=0).items
        if event["reason"] == UNHEALTHY
    }
    pods = [pod for pod in cluster.invariants.pods() if not is_terminal(pod) and not is_deleting(pod)]
    return ["/".join(name_key(pod)) for pod in pods if pod["metadata"]["uid"] in using - told]


def published_health(cluster: SimulatedCluster, card: Card) -> set[bool]:
    """Whether the devices of a card are published as unhealthy; empty if none is published."""
    uuid, taint = cluster.names.attribute("uuid"), cluster.names.unhealthy
    return {
        taint in {each.key for each in device.taints}
        for part in cluster.invariants.slices().values()
        for device in part.devices
        if device.attributes.get(uuid) == card.uuid
    }
