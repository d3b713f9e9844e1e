"""The backend of devices that vendors' own device plugins serve."""

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from driver.errors import TransientFault
from kubeletplugin.hardware.actions import Action, Handle, PluginAllocation
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.deviceplugin.answers import PluginAnswer, edits_from, from_text, to_text
from kubeletplugin.hardware.deviceplugin.hostfiles import HostTree
from kubeletplugin.hardware.deviceplugin.kept_answers import KeptAnswers
from kubeletplugin.hardware.deviceplugin.registry import Registry
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.port import (
    CardGone,
    CardState,
    FoundObject,
    Hardware,
    HardwareRefusal,
    Health,
    NoRoom,
    Unsupported,
)
from kubeletplugin.hardware.readings import Readings
from kubeletplugin.hardware.use import Use

_ANSWER = "answer"
"""The entry of a handle that has the edits as a text."""


class DevicePlugins(Protocol):
    """The device plugins of a node."""

    def tend(self) -> None:
        """Look after the sockets; called every few seconds."""

    def allocate(self, resource: str, ids: tuple[str, ...]) -> PluginAnswer:
        """What the device plugin wants for a container with these devices. Never asks twice.

        Raises:
            TransientFault: nobody was asked; call again.
            HardwareRefusal: the device plugin refused, or did not answer in time.
        """


class NotServed(DevicePlugins):
    """Device plugins of a node that another program serves."""

    def tend(self) -> None:
        """Does nothing."""

    def allocate(self, resource: str, ids: tuple[str, ...]) -> PluginAnswer:
        """Ask nobody."""
        raise TransientFault(f"the device plugin of {resource} is served by the kubelet plugin of this node")


class DevicePluginHardware(Hardware):
    """``Hardware`` whose cards are what device plugins report. An answer of theirs to a claim is an object on its first
    card.

    Args:
        registry: what they have reported.
        files: the host's files.
    """

    def __init__(self, plugins: DevicePlugins, registry: Registry, kept: KeptAnswers, files: HostTree):
        self._plugins = plugins
        self._registry = registry
        self._kept = kept
        self._files = files
        self._lock = threading.Lock()
        self._answers: Mapping[str, tuple[tuple[PluginAllocation, Handle], ...]] = {}
        """The answers in use when the cards were asked for, by card."""
        self._cards: Mapping[str, Card] = {}

    def cards(self) -> tuple[Card, ...]:
        """See ``CardSource``; those included that their device plugins do not report any more."""
        self._plugins.tend()
        self._look()
        cards = self._registry.cards()
        with self._lock:
            self._cards = {card.uuid: card for card in cards}
        return cards

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``."""
        cards, found = self.cards(), self._registry.health()
        return {
            card.name: found[card.bridged.resource, card.bridged.device_id]
            for card in cards
            if card.bridged and (card.bridged.resource, card.bridged.device_id) in found
        }

    def observe(self, card: Card) -> CardState:
        """See ``CardControl``. The answers are as of the last question for the cards, and of this program's actions."""
        self._present(card.uuid)
        with self._lock:
            answers = self._answers.get(card.uuid, ())
        return CardState(tuple(FoundObject(action, handle) for action, handle in answers))

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``CardControl``: one question for all devices of the claim that are of the same resource."""
        card = self._present(use.card.uuid)
        bridged = card.bridged
        if bridged is None or (use.config is not None and use.config.sharing != "none"):
            raise Unsupported(
                f"sharing does not apply to card {card.name} of a device plugin; remove it from the claim's parameters"
            )
        wanted = Counter(self._of_resource(use, bridged.resource))
        answers = [action for kept in self._look().values() for action, _ in kept]
        for action in answers:
            if action.claim == use.claim and action.resource == bridged.resource and self._is_for(action, wanted):
                return (action,)
        others = [action for action in answers if action.claim != use.claim and action.resource == bridged.resource]
        busy = {name for action in others for name in action.ids}
        busy |= {name for key in taken for name in PluginAllocation.ids_in(key, bridged.resource)}
        ids = [name for uuid, count in wanted.items() for name in self._chosen(self._present(uuid), count, busy)]
        return (PluginAllocation(next(iter(wanted)), use.claim, bridged.resource, tuple(ids)),)

    def ensure(self, action: Action) -> Handle:
        """See ``CardControl``: asks the device plugin, unless its answer is kept."""
        if not isinstance(action, PluginAllocation):
            raise Unsupported(f"{action.key}: a device of a device plugin has nothing of that kind")
        self._present(action.card)
        if (handle := self._kept_for(action)) is not None:
            return handle
        reported = self._registry.reported(action.resource, action.ids)
        if missing := [name for name in action.ids if name not in reported]:
            raise CardGone(f"the device plugin of {action.resource} does not report {', '.join(missing)} any more")
        if ill := [name for name in action.ids if not reported[name].healthy]:
            raise HardwareRefusal(f"the device plugin of {action.resource} reports {', '.join(ill)} as unhealthy")
        answer = self._plugins.allocate(action.resource, action.ids)
        try:
            edits = edits_from(answer, action.resource, self._registry.settings_of(action.resource), self._files)
        except HardwareRefusal:
            self._registry.metrics.failed(action.resource, "answer")
            raise
        made = {_ANSWER: to_text(edits), action.variables: ",".join(name for name, _ in edits.env)}
        try:
            self._kept.keep(action, made)
        except OSError as error:
            raise HardwareRefusal(f"{action.key}: its answer cannot be kept: {error}; correct that") from error
        self._look()
        return made

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``CardControl``. Asks no device plugin; an answer goes also if its card is gone."""
        if not isinstance(action, PluginAllocation):
            return
        try:
            if handle is None or self._kept.get(action) in (None, dict(handle)):
                self._kept.drop(action)
        except OSError as error:
            raise TransientFault(f"{action.key}: the answer kept for it cannot be removed: {error}") from error
        self._look()

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``CardControl``: each device has all that the answer has. Nothing for one that is only monitored."""
        card = self._known(use.card.uuid)
        for key, handle in handles.items():
            if card.bridged and PluginAllocation.ids_in(key, card.bridged.resource):
                try:
                    return from_text(handle[_ANSWER])
                except (KeyError, ValueError) as error:
                    raise HardwareRefusal(
                        f"{key}: its answer cannot be decoded; delete the pod and the claim"
                    ) from error
        return Edits()

    def readings(self, card: Card) -> Readings:
        """See ``CardControl``. A device plugin measures nothing."""
        self._present(card.uuid)
        return Readings()

    def _present(self, uuid: str) -> Card:
        """The card, if its device plugin reports it."""
        card = self._known(uuid)
        if card.bridged is None or not self._registry.present(card.bridged.resource, card.bridged.device_id):
            raise CardGone(f"card {uuid} is not there")
        return card

    def _known(self, uuid: str) -> Card:
        """The card, also if its device plugin does not report it any more."""
        with self._lock:
            known = self._cards.get(uuid)
        if known is None:
            known = {card.uuid: card for card in self.cards()}.get(uuid)
        if known is None:
            raise CardGone(f"card {uuid} is not there")
        return known

    def _of_resource(self, use: Use, resource: str) -> Iterator[str]:
        for uuid in use.cards_of_claim or (use.card.uuid,):
            card = self._known(uuid)
            if card.bridged and card.bridged.resource == resource:
                yield uuid

    def _is_for(self, action: PluginAllocation, wanted: Mapping[str, int]) -> bool:
        """Whether an answer is for so many IDs of each of these cards."""
        owners = {name: uuid for uuid in wanted for name in _ids(self._known(uuid))}
        return Counter(owners.get(name, "") for name in action.ids) == Counter(wanted)

    def _chosen(self, card: Card, count: int, busy: Collection[str]) -> tuple[str, ...]:
        # Who has a whole card is decided by the recorded claims.
        is_shared = card.bridged is not None and card.bridged.is_shared
        free = [name for name in _ids(card) if not is_shared or name not in busy]
        if card.bridged is None or len(free) < count:
            raise NoRoom(f"every ID of card {card.name} is in use; delete pods that use it")
        reported = self._registry.reported(card.bridged.resource, free)
        return tuple(sorted(free, key=lambda name: name not in reported or not reported[name].healthy)[:count])

    def _kept_for(self, action: PluginAllocation) -> Handle | None:
        try:
            return self._kept.get(action)
        except OSError as error:
            raise TransientFault(f"{action.key}: what is kept cannot be read: {error}") from error

    def _look(self) -> Mapping[str, tuple[tuple[PluginAllocation, Handle], ...]]:
        found: dict[str, list[tuple[PluginAllocation, Handle]]] = {}
        try:
            for action, handle in self._kept.all():
                found.setdefault(action.card, []).append((action, handle))
        except OSError as error:
            raise TransientFault(f"answers of device plugins cannot be read: {error}") from error
        answers = {uuid: tuple(kept) for uuid, kept in found.items()}
        self._registry.hold({(one.resource, name) for kept in answers.values() for one, _ in kept for name in one.ids})
        with self._lock:
            self._answers = answers
        return answers


def _ids(card: Card) -> tuple[str, ...]:
    return card.bridged.ids if card.bridged else ()
