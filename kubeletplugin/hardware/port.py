"""The two ports to a node's accelerators: ``CardSource`` (cards and health) and ``CardControl`` (one card). Pure.

A backend implements both. It knows no prepared claims and keeps no state that must survive a restart of the plugin: the
checkpoint does that (``kubeletplugin.prepare``). Several threads call it: never two about the same card, but about
several cards at once, and ``cards``, ``health`` and ``readings`` at any time. A caller can give a call up
(``kubeletplugin.hardware.guarded``). The call may then continue and need not be undone, because it is repeated. The
process can be killed during any call.

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
from kubeletplugin.hardware.readings import Readings
from kubeletplugin.hardware.use import Use


class HardwareRefusal(LodeError):
    """The hardware refused the call. Repeating the call at once does not help."""


class InUse(HardwareRefusal):
    """Processes use the object to release; nothing was changed. Call again after they have ended."""


class NoRoom(HardwareRefusal):
    """Another object is in the way. The message names it; the operator must remove a partition of another program."""


class Unsupported(HardwareRefusal):
    """The card or its driver cannot do this. The author of the claim or the operator must act."""


class CardGone(HardwareRefusal):
    """The card is missing or has fallen off the bus. Its partitions and modes are unknown."""


HealthState = Literal["healthy", "unknown", "degraded", "fatal"]
"""``unknown``: cannot be monitored. ``degraded``: works, and should be looked at. ``fatal``: not usable."""
Recovery = Literal["none", "restart", "reset", "drain", "reboot", "replace"]
"""The action that repairs the card: none, a restart of the applications, a reset of the card, draining and resetting
the card, a reboot of the node, or a new card."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a card or a partition works."""

    state: HealthState = "healthy"
    message: str = ""
    """The fault in words (the kubelet cuts it at ``driver.limits.MAX_HEALTH_MESSAGE``)."""
    code: str = ""
    """The vendor's number of the fault, such as ``Xid 79``; "" if it has none."""
    recovery: Recovery = "none"
    away: bool = False
    """Whether only the program is away that speaks for the card, or a question was not answered, and the card has not
    failed: it counts as healthy as soon as it is reported so."""

    @property
    def healthy(self) -> bool:
        """Whether the state is ``healthy``."""
        return self.state == "healthy"


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object that exists on a card now, whoever created it."""

    action: Action
    """The action that would create it, also for profiles that this program never uses."""
    handle: Handle = field(default_factory=dict)
    complete: bool = True
    """False if its creation was interrupted, as of a GPU instance without a compute instance. ``ensure`` completes
    it."""


@dataclass(frozen=True, slots=True)
class CardState:
    """The objects on a card now, and the offers that its mode excludes."""

    found: tuple[FoundObject, ...] = ()
    """All partitions, and the daemons, modes and directories that this program may have created."""
    excluded: Mapping[Offer, str] = field(default_factory=dict)
    """Offers that the present mode of the card excludes, each with the reason and the remedy. Offers that ``found``
    excludes are not repeated here (``kubeletplugin.offers``)."""
    unread: Mapping[Offer, str] = field(default_factory=dict)
    """Offers that depend on a fact that was never read, each with the call that failed and its code."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The facts that preparing a use depends on."""

    actions: tuple[Action, ...]
    """See ``CardControl.actions``."""
    state: CardState
    """See ``CardControl.observe``."""
    edits: Edits | None
    """See ``CardControl.edits``; None if actions come first, or if objects on the card may be in the way."""


class CardSource(Protocol):
    """The cards of this node and their health. Each method may raise ``TransientFault``; the caller retries later."""

    def cards(self) -> tuple[Card, ...]:
        """The cards present, in order of unit and index. A card that cannot be read is left out."""

    def unread_cards(self) -> tuple[str, ...]:
        """Why cards that are there may be missing in the last answer of ``cards``; () if none is.

        Until then, a card that is not in the answer is not known to be gone.
        """
        return ()

    def health(self) -> Mapping[str, Health]:
        """Health of every card, by ``Card.name``, and of partitions with faults of their own, by ``Card.part_name``.

        A fault that only an event reports is in every later answer until the backend knows that it has passed, or in at
        least one answer if it cannot know. The caller decides when a fault is over (``RememberedCards``).
        """


class CardControl(Protocol):
    """The state of single cards, and actions on them. Each method may raise ``TransientFault``; the caller retries
    later."""

    def observe(self, card: Card) -> CardState:
        """Read from the hardware what is on the card now.

        Raises:
            Gone: the card is not there.
        """

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """The actions that make the device usable for a container, in order.

        Changes nothing, and is never called for devices that are only monitored (``Use.admin``). Equal arguments on
        unchanged hardware give equal answers. ``MigMode`` precedes a MIG instance if MIG mode is off, or on only
        because of an action in ``taken``. So MIG mode that the operator turned on is never turned off. A static
        partition needs no action.

        Args:
            taken: keys of all actions that are stored for other claims, whether carried out or not. An id chosen here
                is neither on the hardware nor in ``taken``.

        Raises:
            Unsupported: the card cannot do what ``use.config`` asks for.
            NoRoom: no id is free.
            Gone: the card is not there.
        """

    def assess(self, use: Use, taken: Collection[str]) -> Assessment:
        """``actions``, ``observe`` and ``edits`` in one guarded call instead of three, so a hung card costs one
        time-out.

        Raises:
            Unsupported, NoRoom, Gone: one of the three raised it.
        """
        actions, state = self.actions(use, taken), self.observe(use.card)
        return Assessment(actions, state, None if actions or state.found else self.edits(use, {}))

    def ensure(self, action: Action) -> Handle:
        """Create the action's object, and return its handle.

        Idempotent: an existing object is adopted, whoever created it, and an interrupted creation is completed. The
        caller has decided before that it may be adopted, and has stored the action. After an error, nothing that this
        call created is left, or ``release`` finds it.

        Raises:
            NoRoom: another object is in the way; the message names it.
            Unsupported: the card cannot do it.
            Gone: the card is not there.
        """

    def release(self, action: Action, handle: Handle | None) -> None:
        """Remove the action's object. Success if it does not exist.

        A mode that another object on the card needs, such as a partition of another program, stays on. That is a
        success, too.

        Args:
            handle: the result of ``ensure``; None if it was never stored, then the object with the action's key is
                removed. An object with another handle belongs to another program: success, and nothing is changed.

        Raises:
            InUse: processes use it; nothing was changed.
            Gone: the card is not there.
        """

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """The edits of a container that gets the device: device nodes, mounts, environment, hooks, additional gids.

        Equal arguments on unchanged hardware give equal edits. A variable can depend on the device and on
        ``use.cards_of_request``, not on other devices of the container; the caller refuses devices that set a variable
        to different values. A partition that is only monitored and does not exist has the nodes of its card. Every
        device of NVIDIA has ``NVIDIA_VISIBLE_DEVICES=void``, and every one of Ascend ``ASCEND_VISIBLE_DEVICES=void``:
        images of the vendors ask their runtimes for all cards.

        Args:
            handles: the handles of all actions of this use, by key.

        Raises:
            Gone: the card or the partition is not there.
        """

    def readings(self, card: Card) -> Readings:
        """Read what the card measures of itself now. Changes nothing.

        It may be called while another call about the card is under way. A card that is divided has only what is true of
        it as a whole.

        Raises:
            Gone: the card is not there.
        """


class Hardware(CardSource, CardControl, Protocol):
    """Both ports, as a backend implements them. Backends derive from this and inherit ``assess``."""


@dataclass(frozen=True, slots=True)
class HardwarePorts:
    """Both ports of one node, as the plugin uses them. Each may be wrapped."""

    source: CardSource
    control: CardControl
