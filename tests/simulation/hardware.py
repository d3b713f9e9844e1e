"""The cards of a node, which may fail one by one, or not answer at all."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from driver.clock import Clock
from driver.errors import TransientFault
from driver.observe import Logger
from driver.threads import Threads
from kubeletplugin.hardware import (
    Action,
    Card,
    CardGone,
    CardState,
    Edits,
    Handle,
    Hardware,
    Health,
    NoRoom,
    Readings,
    Use,
)
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.hardware.choosing import BackendChoice, CombinedHardware
from kubeletplugin.hardware.guarded import GuardedHardware
from kubeletplugin.hardware.simulated import MemoryStore, Profile, SimulatedHardware, load_profile
from tests.simulation.bridged_node import BridgedNode
from tests.simulation.files import MemoryFiles
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.simulation.misreadings import UNREAD, Misreadings, Question
from tests.simulation.process import Process


@dataclass(slots=True)
class NodeHardware:
    """The cards of a node and what exists on them, which outlive every program. ``of`` gives it to a program."""

    profile: Profile
    node: str
    answers: bool = True
    """Whether the vendor's library answers."""
    faults: dict[str, str] = field(default_factory=dict)
    """What is wrong with cards, by ``Card.name``."""
    lost: set[str] = field(default_factory=set)
    """The cards that have fallen off the bus, by ``Card.name``."""
    threads: bool = True
    """Whether the node has threads left for questions; only the guarded hardware of a program needs any."""
    hanging: set[str] = field(default_factory=set)
    """The cards that answer no question about themselves, by ``Card.name``."""
    misreadings: Misreadings = field(default_factory=Misreadings)
    """What single cards are asked and do not answer."""
    store: MemoryStore = field(default_factory=MemoryStore)
    """What exists on the cards; others than the programs may change it."""
    foreign: set[str] = field(default_factory=set)
    """Keys of what somebody else made."""
    moves: int = 0
    """How many places on each card's number is after the next reboot."""
    moved: int = 0
    """How many places on it is from where it was at first."""
    bridged: BridgedNode | None = None
    """The device plugins of the node, if it has any."""
    cards_of_node: SimulatedHardware = field(init=False)

    def __post_init__(self) -> None:
        self.cards_of_node = SimulatedHardware(self.profile, self.node, store=self.store)

    def of(self, call: Callable[[], None]) -> "FailingHardware":
        """The cards as one process has them, which announces each call that is about one card by ``call``."""
        return FailingHardware(self, call)

    def guarded(self, call: Callable[[], None], clock: Clock) -> Hardware:
        """As ``of``, asked as a plugin asks: each question in another thread. Here it has been answered by then.

        Who asks about a card while the same process asks about it, in a program that is interleaved, finds it busy.
        """
        return self._guarded(CombinedHardware.only(self.of(call)), clock)

    def of_program(self, process: Process, clock: Clock, log: Logger, *, guarded: bool) -> Hardware:
        """All cards as one process has them; those of device plugins are always guarded."""
        if self.bridged is None:
            return self.guarded(process.call, clock) if guarded else self.of(process.call)
        backends = {"simulated": self.of(process.call), "bridged": self.bridged.hardware(process, clock, log)}
        choices = [BackendChoice(name, lambda: True, partial(backends.__getitem__, name)) for name in backends]
        return self._guarded(CombinedHardware(choices), clock)

    def _guarded(self, cards: CombinedHardware, clock: Clock) -> Hardware:
        return GuardedHardware(lambda: cards, clock, 0, 0, threads=_ImmediateThreads(self))

    def reboot(self) -> None:
        """What the hardware does not keep is gone, and the cards may be numbered in another order."""
        if self.bridged is not None:
            self.bridged.plugins.reboot()
        self.store.save(self.store.load().rebooted())
        self.foreign &= self.store.load().existing.keys()
        if self.moves:
            cards = numbered_anew(self.cards_of_node.cards(), self.moves)
            self.cards_of_node = SimulatedHardware(Profile(cards), self.node, store=self.store)
            self.moved, self.moves = self.moved + self.moves, 0

    def make_foreign(self, action: Action) -> None:
        """Somebody else makes a partition, and turns on the mode that it needs; nothing changes if there is no room."""
        before = self.store.load()
        needed: list[Action] = [MigMode(action.card), action] if isinstance(action, MigInstance) else [action]
        try:
            for each in needed:
                self.cards_of_node.ensure(each)
        except NoRoom:
            self.store.save(before)
        self.foreign |= self.store.load().existing.keys() - before.existing.keys()

    def remove_foreign(self, key: str, own: Collection[str]) -> None:
        """Somebody else removes what they made, and turns off the mode that nothing needs any more.

        Args:
            own: the keys of what claims have.
        """
        self.foreign.discard(key)
        state = self.store.load()
        if key not in own and key in state.existing and not isinstance(state.existing[key][0], MigMode):
            card = state.existing[key][0].card
            state, mode = state.without(key), MigMode(card).key
            divided = any(a.card == card for a, _ in state.existing.values() if isinstance(a, MigInstance))
            if not divided and mode not in own and mode in state.existing:
                state = state.without(mode)
                self.foreign.discard(mode)
            self.store.save(state)

    def mend(self, own: Collection[str]) -> None:
        """Everything answers, nothing is lost or busy, and what somebody else made is removed; faults stay."""
        self.answers = self.threads = True
        self.lost.clear()
        self.hanging.clear()
        self.misreadings.now.clear()
        self.store.save(replace(self.store.load(), in_use=frozenset()))
        for key in sorted(self.foreign):
            self.remove_foreign(key, own)

    def set_in_use(self, key: str, *, in_use: bool) -> None:
        """A process starts or ends to use what exists by the action of that key."""
        state = self.store.load()
        self.store.save(replace(state, in_use=state.in_use | {key} if in_use else state.in_use - {key}))


def profile_of(profile: str | Profile) -> Profile:
    """A profile, or the shipped one of this name."""
    return load_profile(profile, MemoryFiles()) if isinstance(profile, str) else profile


class _ImmediateThreads(Threads):
    """The threads of a node: their work is done when they have been started."""

    def __init__(self, node: NodeHardware):
        self._node = node

    def run(self, work: Callable[[], None]) -> None:
        """See ``Threads``."""
        if not self._node.threads:
            raise RuntimeError("can't start new thread")
        work()


def numbered_anew(cards: Collection[Card], moves: int) -> tuple[Card, ...]:
    """The same cards, of which each has the number that another one of its kind had; in order of unit and index."""
    found: list[Card] = []
    for unit in sorted({card.unit for card in cards}):
        own = [card for card in cards if card.unit == unit]
        turn = moves % len(own)
        numbers = [card.index for card in (*own[turn:], *own[:turn])]
        found += [replace(card, index=number) for card, number in zip(own, numbers, strict=True)]
    return tuple(sorted(found, key=lambda card: (card.unit, card.index)))


class FailingHardware(HardwareDecorator):
    """Implements ``Hardware``. The program may be killed before and after each change, and before each question."""

    def __init__(self, node: NodeHardware, call: Callable[[], None]):
        super().__init__(node.cards_of_node)
        self._node = node
        self._call = call
        self._unread: frozenset[str] = frozenset()

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``."""
        self._answer()
        there = [card for card in super().cards() if card.name not in self._node.lost]
        self._unread = frozenset(card.name for card in there if self._node.misreadings.meets("cards", card.name))
        return tuple(card for card in there if card.name not in self._unread)

    def unread_cards(self) -> tuple[str, ...]:
        """See ``Hardware``."""
        return tuple(f"card {name} cannot be read" for name in sorted(self._unread))

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        self._answer()
        faults = self._node.faults
        return {
            name: Health("fatal", faults[name]) if name in faults else self._health(name, health)
            for name, health in super().health().items()
            if name not in self._node.lost
        }

    def observe(self, card: Card) -> CardState:
        """See ``Hardware``."""
        self._ask("observe", card.uuid)
        return super().observe(card)

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``Hardware``."""
        self._ask("actions", use.card.uuid)
        return super().actions(use, taken)

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        self._ask("ensure", action.card)
        handle = super().ensure(action)
        self._call()
        self._lose("ensure", action.card, done=True)
        return handle

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        self._ask("release", action.card)
        super().release(action, handle)
        self._call()
        self._lose("release", action.card, done=True)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``Hardware``."""
        self._ask("edits", use.card.uuid)
        return super().edits(use, handles)

    def readings(self, card: Card) -> Readings:
        """See ``Hardware``."""
        self._ask("readings", card.uuid)
        return super().readings(card)

    def _health(self, name: str, health: Health) -> Health:
        return UNREAD if self._node.misreadings.meets("health", name) else health

    def _ask(self, question: Question, card: str) -> None:
        self._call()
        self._answer()
        name = self._name(card)
        if name in self._node.lost:
            raise CardGone(f"card {card} has fallen off the bus")
        if name in self._node.hanging:
            raise TransientFault(f"card {card} does not answer")
        self._lose(question, card)

    def _lose(self, question: Question, card: str, *, done: bool = False) -> None:
        if self._node.misreadings.meets(question, self._name(card), done=done):
            raise TransientFault(f"card {card}: {question}: unknown error")

    def _name(self, card: str) -> str:
        return next((known.name for known in super().cards() if known.uuid == card), "")

    def _answer(self) -> None:
        if not self._node.answers:
            raise TransientFault("the hardware does not answer")
