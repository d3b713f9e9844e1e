"""What monitoring is shown must follow from the API's objects alone, whatever happened before."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from controller.allocation import CARD
from controller.census import Detail, FleetCopies, KnownCards, Snapshot, count, exposition
from controller.census.snapshot import CountedHolding, CountedUse
from controller.loop import Controller
from controller.state import Changes, State
from driver.device_facts import card_of
from driver.model import DeviceId


def fleet_differences(controller: Controller, restarted: State) -> Iterator[str]:
    """Where what a controller that leads shows differs from what follows from the API's objects."""
    shown = controller.fleet_snapshot()
    if shown is None:
        return
    view = FleetCopies(restarted, shown=True)
    view.follow(Changes(claims=dict.fromkeys(restarted.claims)), now=0, listed=True)
    # The pods that wait are checked elsewhere.
    right = view.snapshot((), now=0)
    known = _published(shown, restarted)
    if known != (expected := _published(right, restarted)):
        keys = [key for key in {**known, **expected} if known.get(key) != expected.get(key)]
        yield f"holdings: {keys[0]} is {known.get(keys[0])}, should be {expected.get(keys[0])}"
    cards = KnownCards(restarted.names)
    states, should = (_states(replace(one, holdings=expected), cards) for one in (shown, right))
    if states != should:
        cards_that_differ = [key for key in {**states, **should} if states.get(key) != should.get(key)]
        yield f"cards: {cards_that_differ} are {states}, should be {should}"
    yield from _implausible(shown)
    text = exposition(Detail.CLAIMS, count(shown, cards, lambda _: 0.0))
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    if len(series) != len(set(series)):
        yield f"a series is there twice: {next(one for one in series if series.count(one) > 1)}"


def _states(snapshot: Snapshot, cards: KnownCards) -> Mapping[tuple[str, str], str]:
    return {key: card.state for key, card in count(snapshot, cards, age=lambda _: 0.0).cards.items()}


def _published(snapshot: Snapshot, state: State) -> Mapping[str, CountedHolding]:
    """The holdings whose devices are published; of others, a controller shows what it knew of them before."""
    driver, device_of = state.names.driver, state.devices.ledger.published_device
    return {
        key: holding
        for key, holding in snapshot.holdings.items()
        if all(device_of(DeviceId(driver, held.pool, held.device)) for held in holding.devices)
    }


def _implausible(shown: Snapshot) -> Iterator[str]:
    """What cannot be: time that runs backwards, time of nobody, and more than a whole card."""
    for use, seconds in shown.card_seconds.items():
        if seconds < 0:
            yield f"{use} has held cards for {seconds} s"
    for holding in shown.holdings.values():
        for held in holding.devices:
            if CountedUse(holding.namespace, held.type, held.kind) not in shown.card_seconds:
                yield f"nobody counts the time of {holding}"
            if not 0 <= held.parts <= CARD or not card_of(held.device):
                yield f"{holding.claim} holds {held.parts} parts of a card"
