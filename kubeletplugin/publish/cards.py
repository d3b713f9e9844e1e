"""The node's cards as the hardware reported them last: their offers and their health."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from driver.errors import LodeError, TransientFault
from driver.observe import Logger
from kubeletplugin.hardware import Card, CardState, HardwarePorts, HardwareRefusal, Health
from kubeletplugin.hardware.answer import Unread
from kubeletplugin.offers import CardOffer, Recorded, offer_of
from kubeletplugin.publish.other_drivers import KnownCard, known_card

_HEALTHY = Health()


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards, and the health of each card and of partitions by their names."""

    offers: tuple[CardOffer, ...] = ()
    health: Mapping[str, Health] = field(default_factory=dict)
    releasing: frozenset[str] = frozenset()
    """Names of devices that an earlier claim still holds."""
    known: tuple[KnownCard, ...] = ()
    """The cards, with the names that other drivers may use for them."""

    @property
    def unhealthy(self) -> frozenset[str]:
        """Names of the cards that are not healthy."""
        names = (offer.card.name for offer in self.offers)
        return frozenset(name for name in names if not self.health.get(name, _HEALTHY).healthy)


class CardMonitor:
    """Reads cards and health from the hardware, keeps them, and logs changes of health.

    Args:
        releasing: returns the names of devices on these cards that an earlier claim still holds.
        recorded: returns the recorded actions and devices of claims; may raise LodeError and OSError.
    """

    def __init__(
        self,
        hardware: HardwarePorts,
        log: Logger,
        releasing: Callable[[Collection[Card]], Collection[str]],
        recorded: Callable[[], Recorded],
    ):
        self._hardware = hardware
        self._releasing = releasing
        self._recorded = recorded
        self._log = log
        self._last_record = Recorded()
        self._observed: dict[str, CardState | Unread] = {}
        """The last state of each card, by uuid. A card that does not answer is offered as before, or not at all if it
        never answered."""
        self._read: tuple[object, ...] = ()
        """What ``state`` follows from."""
        self.state = NodeCards()

    def refresh(self) -> bool:
        """Read the hardware; returns whether the cards, their health or their offers changed.

        Raises:
            TransientFault: the hardware does not answer; the state stays.
        """
        before = self._record()
        cards, health = self._hardware.source.cards(), dict(self._hardware.source.health())
        answers = {card.uuid: self._observe(card) for card in cards}
        observed = {uuid: _kept(self._observed.get(uuid), now) for uuid, now in answers.items()}
        after = self._record()
        # What exists was recorded before it was made, and is recorded until it is gone: at one of these two moments.
        recorded = replace(after, keys=before.keys | after.keys)
        self._observed = observed
        releasing = frozenset(self._releasing(cards))
        # Most of the time nothing has changed. To compare what was read takes much less than to work out the offers.
        read = (cards, health, answers, observed, recorded, releasing)
        if read == self._read:
            return False
        offers = tuple(
            offer_of(card, _offered(observed[card.uuid], health.get(card.name, _HEALTHY)), recorded) for card in cards
        )
        state = NodeCards(
            offers,
            health | {card.name: _told(health.get(card.name, _HEALTHY), answers[card.uuid]) for card in cards},
            releasing,
            tuple(known_card(card, _as_far_as_known(observed[card.uuid])) for card in cards),
        )
        self._read = read
        if state == self.state:
            return False
        for name, one in state.health.items():
            if one != self.state.health.get(name, _HEALTHY):
                report = self._log.info if one == _HEALTHY else self._log.warning
                report("card health changed", card=name, healthy=one.healthy, reason=one.message)
        self.state = state
        return True

    def _observe(self, card: Card) -> CardState | Unread:
        try:
            return self._hardware.control.observe(card)
        except HardwareRefusal as refusal:
            return _Refused(str(refusal))
        except TransientFault as fault:
            return Unread(str(fault))

    def _record(self) -> Recorded:
        try:
            self._last_record = self._recorded()
        except (LodeError, OSError) as error:
            self._log.warning("checkpoint cannot be read", reason=str(error))
        return self._last_record


class _Refused(Unread):
    """The card says that it is gone."""


def _offered(state: CardState | Unread, health: Health) -> CardState | Unread:
    """The state by which a card is offered. The devices of one that is gone stay published with a taint, if its health
    says so, too: after a refusal that was an error of a moment, nothing is known of the card."""
    return CardState() if isinstance(state, _Refused) and health.state == "fatal" else state


def _kept(known: CardState | Unread | None, now: CardState | Unread) -> CardState | Unread:
    """The state that holds now: what was known, if the card does not say it this time."""
    return known if isinstance(now, Unread) and isinstance(known, CardState) else now


def _as_far_as_known(state: CardState | Unread) -> CardState:
    return CardState() if isinstance(state, Unread) else state


def _told(health: Health, answer: CardState | Unread) -> Health:
    """The health of a card, which says if it does not answer what is on it."""
    if isinstance(answer, Unread) and health == _HEALTHY:
        return Health(message=f"what is on the card is not known now: {answer.why}")
    return health
