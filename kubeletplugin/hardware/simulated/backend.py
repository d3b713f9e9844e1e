"""The backend of simulated cards.

A container with a simulated card has a character device such as ``/dev/lode/gpu-0``, which is the null device. A card
is unhealthy while the faults directory has a file with its name. The content of the file is the reason: ``echo "Xid 79"
> <faults directory>/gpu-3``. Removing the file makes the card healthy again.
"""

import threading
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from driver.errors import TransientFault
from driver.files import Files
from driver.limits import MAX_HEALTH_MESSAGE
from driver.parameters import GpuConfig
from kubeletplugin.hardware.actions import (
    Action,
    HamiRegion,
    Handle,
    MigInstance,
    MigMode,
    MpsDaemon,
    TimeSlice,
    VnpuInstance,
)
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import DeviceNode, Edits
from kubeletplugin.hardware.partitions import Partition
from kubeletplugin.hardware.port import CardGone, CardState, FoundObject, Hardware, Health, InUse, NoRoom, Unsupported
from kubeletplugin.hardware.readings import Readings
from kubeletplugin.hardware.simulated.profile import Profile
from kubeletplugin.hardware.simulated.state import MemoryStore, SimulatedState, StateStore
from kubeletplugin.hardware.use import Use
from kubeletplugin.hardware.vendors import facts_of

DEVICE_DIRECTORY = "/dev/lode"
NULL_DEVICE = ("/dev/null", 1, 3)
"""Path, major and minor number (Linux, Documentation/admin-guide/devices.txt)."""
MOST_VNPUS = 32
"""The most vNPUs of one chip (DCMI)."""
_NO_MEMORY = "the profile does not say how much memory the card has"
_UUID_SPACE = uuid.UUID("6c6f6465-0000-5000-8000-73696d756c61")


class SimulatedHardware(Hardware):
    """``Hardware`` with the cards of a profile.

    Args:
        node_name: uuids are derived from it.
        files: the file system with the faults directory; without it every card is healthy.
        faults_directory: see the docstring of the module; "" for none.
        store: keeps what exists on the cards; by default in memory, as long as this object.
    """

    def __init__(
        self,
        profile: Profile,
        node_name: str = "",
        files: Files | None = None,
        faults_directory: str = "",
        store: StateStore | None = None,
    ) -> None:
        self._cards = tuple(_with_uuid(card, node_name) for card in profile.cards)
        self._readings = profile.readings
        self._files = files
        self._faults = faults_directory
        self._store = store or MemoryStore()
        self._changing = threading.Lock()

    def cards(self) -> tuple[Card, ...]:
        """The cards of the profile, without those that are lost."""
        return self._not_lost()

    def health(self) -> Mapping[str, Health]:
        """Health of every card, according to the faults directory.

        Raises:
            TransientFault: the directory cannot be read.
        """
        reasons: dict[str, str] = {}
        if self._files and self._faults:
            try:
                for name in self._files.names(self._faults):
                    text = self._files.read(f"{self._faults}/{name}")
                    if text is not None:
                        reasons[name] = text.decode(errors="replace").strip()[:MAX_HEALTH_MESSAGE] or "simulated fault"
            except OSError as error:
                raise TransientFault(f"faults directory {self._faults}: cannot be read: {error}") from error
        return {
            card.name: Health("fatal", reasons[card.name]) if card.name in reasons else Health()
            for card in self._not_lost()
        }

    def observe(self, card: Card) -> CardState:
        """See ``Hardware``."""
        self._present(card.uuid)
        found = tuple(FoundObject(action, handle) for action, handle in _on(self._store.load(), card.uuid))
        return CardState(found, {} if card.memory_mib or card.bridged else {"share": _NO_MEMORY})

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``Hardware``; MIG mode is off until an instance needs it."""
        card = self._present(use.card.uuid)
        parameters = facts_of(card.vendor).parameters
        config = use.config or parameters()
        if not isinstance(config, parameters):
            raise Unsupported(f"{type(config).__name__} does not apply to card {card.name}; remove it from the claim")
        if card.bridged and config.sharing != "none":
            raise Unsupported(
                f"sharing does not apply to card {card.name} of a device plugin; remove it from the claim's parameters"
            )
        if use.partition is not None:
            if config.sharing != "none":
                raise Unsupported(
                    f"sharing {config.sharing} does not apply to a partition of card {card.name}; use sharing none"
                )
            return self._partition(card, use.partition, taken)
        match config.sharing:
            case "timeSlicing":
                return (TimeSlice(card.uuid, (isinstance(config, GpuConfig) and config.interval) or "default"),)
            case "mps":
                return (MpsDaemon(card.uuid),)
            case "hamiCore" if use.share is None:
                raise Unsupported("sharing hamiCore limits shares only; ask for a share of a card, or use sharing none")
            case "hamiCore":
                return (HamiRegion((use.cards_of_request or (card.uuid,))[0], use.claim),)
            case _:
                return ()

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        card = self._present(action.card)
        with self._changing, self._store.lock():
            state = self._store.load()
            if action.key in state.existing:
                existing, handle = state.existing[action.key]
                if existing != action:
                    raise NoRoom(f"{action.key} exists already, and is another: {existing}")
                return handle
            self._check(action, card, state)
            made = {"uuid": f"MIG-{uuid.uuid5(_UUID_SPACE, f'{action.key}/{state.made}')}"}
            handle = made if isinstance(action, MigInstance) else {}
            self._store.save(state.with_action(action, handle))
            return handle

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        self._present(action.card)
        with self._changing, self._store.lock():
            state = self._store.load()
            if action.key not in state.existing or handle not in (None, state.existing[action.key][1]):
                return
            if action.key in state.in_use:
                raise InUse(f"{action.key}: processes use it")
            if isinstance(action, MigMode) and any(isinstance(a, MigInstance) for a, _ in _on(state, action.card)):
                return
            self._store.save(state.without(action.key))

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """The null device as ``/dev/lode/<card>`` or, for a partition, ``/dev/lode/<card>-mig-<profile>-<slot>``."""
        host, major, minor = NULL_DEVICE
        card = self._present(use.card.uuid)
        node = DeviceNode(f"{DEVICE_DIRECTORY}/{card.part_name(use.partition)}", host, major, minor)
        variable = facts_of(card.vendor).visible_devices
        return Edits(((variable, "void"),) if variable else (), (node,))

    def readings(self, card: Card) -> Readings:
        """See ``Hardware``: what the profile says."""
        return Readings(self._readings.get(self._present(card.uuid).name, {}))

    def _not_lost(self) -> tuple[Card, ...]:
        lost = self._store.load().lost
        return tuple(card for card in self._cards if card.uuid not in lost) if lost else self._cards

    def _present(self, card: str) -> Card:
        for known in self._not_lost():
            if known.uuid == card:
                return known
        raise CardGone(f"card {card} is not there")

    def _partition(self, card: Card, partition: Partition, taken: Collection[str]) -> tuple[Action, ...]:
        match kind := facts_of(card.vendor).partition_kind:
            case "mig":
                return MigMode(card.uuid), MigInstance(card.uuid, partition.profile, partition.slot)
            case "vnpu":
                return (self._free_vnpu(card, partition, taken),)
            case None:
                raise Unsupported(f"card {card.name} has no partitions")
            case _:
                assert_never(kind)

    def _free_vnpu(self, card: Card, partition: Partition, taken: Collection[str]) -> VnpuInstance:
        first = card.index * MOST_VNPUS
        for number in range(first, first + MOST_VNPUS):
            action = VnpuInstance(card.uuid, partition.profile, number)
            if action.key not in taken and action.key not in self._store.load().existing:
                return action
        raise NoRoom(f"card {card.name} has {MOST_VNPUS} vNPUs already; delete pods that use them")

    def _check(self, action: Action, card: Card, state: SimulatedState) -> None:
        """Raise NoRoom or Unsupported if the card cannot have this beside its other partitions."""
        if not isinstance(action, MigInstance | VnpuInstance):
            return
        if isinstance(action, MigInstance) and MigMode(card.uuid).key not in state.existing:
            raise Unsupported(f"card {card.name}: MIG mode is off")
        present = [found for found, _ in _on(state, card.uuid)]
        for counter, amount in _draws(action, card).items():
            left = (card.scheme.counters if card.scheme else {}).get(counter, 0)
            users = [found for found in present if counter in _draws(found, card)]
            if amount > left - sum(_draws(found, card)[counter] for found in users):
                raise NoRoom(f"card {card.name}: {counter} is used by {', '.join(found.key for found in users)}")


def _on(state: SimulatedState, card: str) -> Iterator[tuple[Action, Handle]]:
    return ((action, handle) for action, handle in state.existing.values() if action.card == card)


def _draws(action: Action, card: Card) -> Mapping[str, int]:
    """The counters of the card that a partition consumes.

    Raises:
        Unsupported: the card has no such partition.
    """
    match action:
        case MigInstance(profile=profile, start=slot):
            fits = [p for p in _partitions(card) if (p.profile, p.slot) == (profile, slot)]
        case VnpuInstance(template=profile):
            fits = [p for p in _partitions(card) if p.profile == profile]
        case _:
            return {}
    if not fits:
        raise Unsupported(f"card {card.name} has no such partition: {action.key}")
    return fits[0].draws


def _partitions(card: Card) -> tuple[Partition, ...]:
    return card.scheme.partitions if card.scheme else ()


def _with_uuid(card: Card, node_name: str) -> Card:
    if card.uuid:
        return card
    derived = uuid.uuid5(_UUID_SPACE, f"{node_name}/{card.name}")
    return replace(card, uuid=f"{card.unit.upper()}-{derived}")
