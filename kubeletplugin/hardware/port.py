"""The two ports to a node's accelerators: which cards there are, and what is done with one. Pure.

A backend knows nothing of claims that are prepared, and keeps nothing that must survive a restart of the plugin: the
checkpoint does (``kubeletplugin.prepare``). It is asked from several threads: never twice at once about one card, but
about several cards at once, and for ``cards`` and ``health`` beside them. Each call runs where it can be given up
(``kubeletplugin.hardware.guarded``), so it may take long, may go on after its caller is gone, and then need not be
undone: the same question comes again. The process can be killed during any call.

Every backend passes the contract suite (``tests/unit/kubeletplugin/hardware/contract.py``).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from driver.errors import LodeError
from driver.kinds import Offer
from kubeletplugin.hardware.actions import Action, Handle
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.use import Use


class HardwareRefusal(LodeError):
    """The hardware answered: no. To ask again at once changes nothing."""


class InUse(HardwareRefusal):
    """Processes still use what is to be released; nothing was changed. Asked again after they have ended."""


class NoRoom(HardwareRefusal):
    """Something else has the place. The message names it: a foreign partition is for the operator to remove."""


class Unsupported(HardwareRefusal):
    """This card or its driver cannot do that. The author of the claim or the operator must change something."""


class Gone(HardwareRefusal):
    """The card is not there, or it has fallen off the bus. Nothing is known about what exists on it."""


HealthState = Literal["healthy", "unknown", "degraded", "fatal"]
"""``unknown``: cannot be monitored. ``degraded``: works, and should be looked at. ``fatal``: not usable."""
Recovery = Literal["none", "restart", "reset", "drain", "reboot", "replace"]
"""What it takes until it works again: nothing, or only that applications start again; a reset of the card; the card
drained and reset; a reboot of the node; a new card."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a card or a partition works."""

    state: HealthState = "healthy"
    message: str = ""
    """What is wrong (the kubelet cuts it at ``driver.limits.MAX_HEALTH_MESSAGE``)."""
    code: str = ""
    """The vendor's number of the fault, such as ``Xid 79``; "" if it has none."""
    recovery: Recovery = "none"

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return self.state == "healthy"


@dataclass(frozen=True, slots=True)
class Found:
    """Something that exists on a card now, whoever created it."""

    action: Action
    """The action that would create it. An instance of a profile that this program never asks for has it, too."""
    handle: Handle = field(default_factory=dict)
    complete: bool = True
    """False if its creation was cut short, as a GPU instance without a compute instance. ``ensure`` completes it."""


@dataclass(frozen=True, slots=True)
class CardState:
    """What is on a card now."""

    found: tuple[Found, ...] = ()
    """Every partition, and of daemons, modes and directories those that this program may have created."""
    excluded: Mapping[Offer, str] = field(default_factory=dict)
    """What the card cannot be offered as in its present mode, each with the reason and the remedy. What follows from
    the partitions and modes in ``found`` is not repeated here (``kubeletplugin.offers``)."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What must be known of a use before it is prepared."""

    actions: tuple[Action, ...]
    """See ``CardControl.actions``."""
    state: CardState
    """See ``CardControl.observe``."""
    edits: Edits | None
    """See ``CardControl.edits``; None if something must be made before, or is on the card and may be in the way."""


class CardSource(Protocol):
    """The cards of this node and their health. Each method may raise ``TransientFault``; the caller retries later."""

    def cards(self) -> tuple[Card, ...]:
        """The cards present, in order of unit and index. A card that cannot be read is left out; the others are not."""
        ...

    def health(self) -> Mapping[str, Health]:
        """Health of every card, by ``Card.name``, and of partitions with faults of their own, by ``Card.part_name``.

        What only an event tells is told by every later answer until the backend knows that it has passed, or for at
        least one answer if it cannot know. Whether a fault is over for good is judged by the caller.
        """
        ...


class CardControl(Protocol):
    """What is on the cards, and what is done to them. Each method may raise ``TransientFault``; see ``CardSource``."""

    def observe(self, card: Card) -> CardState:
        """What is on the card now, read from the hardware and not remembered.

        Raises:
            Gone: the card is not there.
        """
        ...

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """What must exist before a container can use the device, in the order in which it is to be created.

        Nothing is changed, and it is not asked about devices that are only looked at (``Use.admin``). The same question
        about the same hardware has the same answer. A MIG instance is preceded by ``MigMode`` if MIG mode is off, or on
        only because an action in ``taken`` turned it on: so what the operator turned on is never turned off. A static
        partition needs no action.

        Args:
            taken: keys of all actions that are stored for other claims, whether they are carried out or not. Where an
                id is to be chosen, it is one that is neither on the hardware nor in ``taken``.

        Raises:
            Unsupported: the card cannot do what ``use.config`` asks for.
            NoRoom: no id is free.
            Gone: the card is not there.
        """
        ...

    def assess(self, use: Use, taken: Collection[str]) -> Assessment:
        """The answers of ``actions``, ``observe`` and ``edits`` together: where each can hang, one wait is shorter.

        Raises:
            Unsupported, NoRoom, Gone: one of the questions raised it.
        """
        actions, state = self.actions(use, taken), self.observe(use.card)
        return Assessment(actions, state, None if actions or state.found else self.edits(use, {}))

    def ensure(self, action: Action) -> Handle:
        """Make what the action says exist, and return its handle.

        What exists already is adopted, whoever created it, and what was cut short is completed. So any number of calls
        is as good as one. Whether it may be adopted was judged by the caller, who has stored the action before. On an
        error nothing is left of what this call has created, or it is left such that ``release`` finds it.

        Raises:
            NoRoom: something else has its place; the message names it.
            Unsupported: the card cannot do it.
            Gone: the card is not there.
        """
        ...

    def release(self, action: Action, handle: Handle | None) -> None:
        """Make what the action says not exist. Success if it does not exist.

        A mode of the card that something else on it needs now, such as a partition that somebody else made, stays as it
        is: that is a success, too.

        Args:
            handle: what ``ensure`` returned; None if its answer was never stored. Then what has the key is meant. If
                what exists has another handle it is somebody else's, so this is a success and nothing is changed.

        Raises:
            InUse: processes use it; nothing was changed.
            Gone: the card is not there.
        """
        ...

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """What a container needs to use the device: device nodes, mounts, environment, hooks, additional gids.

        Equal arguments on unchanged hardware give equal edits. Of the other devices of a container, a variable can
        depend on those in ``use.cards_of_request`` alone; the caller refuses two devices that disagree about one. A
        partition that is only looked at and does not exist has the nodes of its card. Every device of NVIDIA has
        ``NVIDIA_VISIBLE_DEVICES=void``, and every one of Ascend ``ASCEND_VISIBLE_DEVICES=void``: images of the vendors
        ask their runtimes for all cards.

        Args:
            handles: of all actions that ``actions`` named for this use, by key.

        Raises:
            Gone: the card or the partition is not there.
        """
        ...


class Hardware(CardSource, CardControl, Protocol):
    """Both ports, as a backend implements them. Backends derive from this, and so have ``assess``."""


@dataclass(frozen=True, slots=True)
class HardwarePorts:
    """Both ports, as the plugin uses them: other objects may stand before each."""

    source: CardSource
    control: CardControl
