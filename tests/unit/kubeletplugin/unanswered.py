"""What a plugin offers, prepares and tells while one function of a vendor's library fails.

``measured`` gives the rows of one function for the table in ``docs/hardware-answers.md``. The tests of each vendor have
a ``VendorMachine`` for their library and compare the rows with the page. After a change, this writes them anew, or only
those of the functions that are named::

    python -m tests.unit.kubeletplugin.unanswered tests.unit.kubeletplugin.hardware.nvidia.test_answers [FUNCTION ...]
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

from structlog.testing import capture_logs

from driver.errors import LodeError
from driver.observe import Metrics
from kubeletplugin.hardware import Hardware, HardwarePorts
from kubeletplugin.hardware.remembered_cards import RememberedCards
from kubeletplugin.prepare import ClaimRef, PrepareError, Preparer, PrepareResult
from kubeletplugin.publish.cards import CardMonitor
from tests.fakes.state import FakeState
from tests.simulation.clock import VirtualClock
from tests.unit.docs.pages import ROOT
from tests.unit.kubeletplugin.plugin_node import PLUGIN, PluginNode, Result, allocatable, release

PAGE = ROOT / "docs/hardware-answers.md"
When = Literal["start", "work"]
"""From the start of the plugin on, while a claim is prepared already; or after it has looked at everything once."""
Lasts = Literal["once", "a while", "for ever"]
WHENS: Sequence[When] = ("start", "work")
_HEADER = """| function | fails | for | offered meanwhile | prepared and released | where it is told |
|---|---|---|---|---|---|"""
_ENDS = 999.0
"""Seconds that pass after an error has ended."""
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w ]+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    function: str
    when: str
    lasts: str
    offered: str
    """``all``, or what is not offered meanwhile of what is offered without the error."""
    prepared: str
    """``all``, or what is not done meanwhile, and whether it is done later."""
    told: str
    """Where the call and its code are named."""

    def __str__(self) -> str:
        cells = (f"`{self.function}`", self.when, self.lasts, self.offered, self.prepared, self.told)
        return f"| {' | '.join(cells)} |"


class VendorMachine(Protocol):
    """A machine whose library can fail, with claims for its devices."""

    code: int
    """The error."""
    running: Sequence[Result]
    """The devices of a claim that is prepared before anything fails."""
    excluded: Sequence[Result]
    """Devices of a claim that must not be prepared beside it, whatever fails."""
    wanted: Mapping[str, tuple[Sequence[Result], Sequence[Mapping[str, Any]]]]
    """The devices and configs of claims that are prepared meanwhile, by the words of the table."""

    only_after: Mapping[str, str]
    """Functions that are called only after another one has failed, and which."""

    @property
    def fake(self) -> FakeState:
        """The library's state."""
        ...

    def start(self, clock: VirtualClock) -> Hardware:
        """A new instance of the backend."""
        ...

    def left(self) -> object:
        """What the claims have left on the cards."""
        ...


def rows_on_page(page: str, prefix: str) -> Mapping[str, Sequence[Row]]:
    """The rows of the page, by function, of the library whose functions have this prefix."""
    found: dict[str, list[Row]] = {}
    for cells in _ROW.findall(page):
        row = Row(*cells)
        if row.function.startswith(prefix):
            found.setdefault(row.function, []).append(row)
    return found


@cache
def functions_with_rows(prefix: str) -> frozenset[str]:
    """The functions of a library that have rows on the page."""
    return frozenset(rows_on_page(PAGE.read_text(), prefix))


def measured(machine_of: Callable[[Path], VendorMachine], folder: Path, function: str) -> list[Row]:
    """The rows of a function; none for a moment at which it is not called.

    Checks besides that everything is offered and done once the function answers again.
    """
    rows: list[Row] = []
    for when in WHENS:
        for lasting in (False, True):
            place = folder / f"{when}-{lasting}"
            place.mkdir()
            rows += _tried(_ErringNode(machine_of(place)), function, when, lasting=lasting)
    return rows


@dataclass
class _Seen:
    """What is seen while a function fails."""

    function: str
    """As messages name it: without the version of its structure."""
    undone: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)

    def notes(self, place: str, texts: Iterable[object]) -> None:
        """Note that the function is named there, if it is."""
        if any(self.function in str(text) for text in texts):
            self.told.add(place)


def _tried(node: "_ErringNode", function: str, when: When, *, lasting: bool) -> Iterator[Row]:
    everything = node.published()
    if when == "work":
        node.hardware.readings(node.cards.cards()[0])
    calls = node.fake.calls(function)
    faults = [f"fault.{function}" if lasting else f"fault.{function}.{calls + 1}"]
    faults += [f"fault.{other}" for name, other in node.machine.only_after.items() if name == function]
    node.fake.change(dict.fromkeys(faults, node.machine.code))
    seen = _Seen(re.sub(r"(_v\d+|V|WithFlags)$", "", function))
    with capture_logs() as logs:
        if when == "start":
            node.start()
        offered = _words(everything, node.published())
        node.look(seen)
        node.use(seen)
        with suppress(LodeError):
            node.monitor.refresh()
        node.look(seen)
    seen.notes("log", logs)
    if node.fake.calls(function) == calls:
        return
    node.fake.change(dict.fromkeys(faults))
    node.check_all_is_good(everything)
    told = ", ".join(sorted(seen.told)) or "-"
    for lasts in ("a while", "for ever") if lasting else ("once",):
        word = "never" if lasts == "for ever" else "later"
        prepared = f"{word}: {', '.join(seen.undone)}" if seen.undone else "all"
        yield Row(function, when, lasts, offered, prepared, told)


class _ErringNode:
    """Cards, a claim that is prepared, and the plugins that run one after another, put together as the program does."""

    def __init__(self, machine: VendorMachine):
        self.machine = machine
        self.fake = machine.fake
        self.rig = PluginNode()
        self.start()
        self.claim = self.rig.claim("mine", list(machine.running))
        assert isinstance(self.plugin.prepare([self.claim])[self.claim.uid], PrepareResult)

    def start(self) -> None:
        self.hardware = self.machine.start(self.rig.clock)
        node = self.rig.context(hardware=self.hardware)
        self.cards: RememberedCards = node.remembered_cards(PLUGIN)
        context = replace(node, hardware=HardwarePorts(self.cards, self.hardware))
        self.plugin = Preparer(context, Metrics())
        self.monitor = CardMonitor(context.hardware, node.log, lambda _: (), self.plugin.recorded)
        self.plugin.tidy()
        with suppress(LodeError):
            self.plugin.restore()

    def published(self) -> frozenset[str]:
        """The devices that can be allocated while no claim has any of them."""
        with suppress(LodeError):
            self.monitor.refresh()
        return frozenset[str]().union(*allocatable(self.monitor.state.offers).values())

    def use(self, seen: _Seen) -> None:
        """Prepare claims and release all that there are."""
        for words, (devices, config) in self.machine.wanted.items():
            answer, ref = self.prepare(f"meanwhile-{words.lower()}", devices, config)
            if isinstance(answer, PrepareError):
                seen.undone.append(words)
                seen.notes("claim", [answer.message])
            self.plugin.unprepare([ref])
            release(self.rig, self.plugin, 1.0)
        answer, ref = self.prepare("excluded", self.machine.excluded)
        assert isinstance(answer, PrepareError), "a card is in two hands"
        self.plugin.unprepare([ref, self.claim])
        release(self.rig, self.plugin, 1.0)
        if self.plugin.recorded().keys:
            seen.undone.append("release")

    def prepare(
        self, name: str, devices: Sequence[Result], config: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[PrepareResult | PrepareError, ClaimRef]:
        ref = self.rig.claim(name, list(devices), config)
        return self.plugin.prepare([ref])[ref.uid], ref

    def look(self, seen: _Seen) -> None:
        """Look where the function is named."""
        state = self.monitor.state
        seen.notes("offer", [(offer.withheld, offer.reason) for offer in state.offers])
        seen.notes("health", state.health.values())
        for offer in state.offers:
            with suppress(LodeError):
                if not self.hardware.readings(offer.card).unread:
                    continue
            seen.told.add("metrics")

    def check_all_is_good(self, everything: frozenset[str]) -> None:
        """Once the function answers, all is offered, prepared and released, as by a new plugin."""
        for _ in range(2):
            self.plugin.restore_rest()
            release(self.rig, self.plugin, 120.0)
            self.published()
            self.rig.clock.advance(_ENDS)
        assert self.published() == everything
        assert self.cards.cards() == self.machine.start(self.rig.clock).cards()
        assert all(each.state == "healthy" for each in self.cards.health().values())
        assert not self.plugin.recorded().keys
        for words, (devices, config) in self.machine.wanted.items():
            answer, ref = self.prepare(f"afterwards-{words.lower()}", devices, config)
            assert isinstance(answer, PrepareResult), f"{words}: {answer}"
            self.plugin.unprepare([ref])
            release(self.rig, self.plugin, 120.0)
        assert not self.machine.left()


def _words(everything: frozenset[str], offered: frozenset[str]) -> str:
    """What is not offered, in words."""
    assert offered <= everything, "nothing is offered that is not there"
    if not offered or offered == everything:
        return "nothing" if not offered else "all"
    cards = {"-".join(name.split("-")[:2]) for name in everything}
    empty = {card for card in cards if not any(_is_on(name, card) for name in offered)}
    rest = {name for name in everything - offered if not any(_is_on(name, card) for card in empty)}
    kinds = {"whole cards": rest & cards, "shares": {name for name in rest if name.endswith("-share")}}
    kinds["partitions"] = rest - kinds["whole cards"] - kinds["shares"]
    gone = [words for words, names in kinds.items() if names]
    parts = [f"nothing of {len(empty)} of {len(cards)} cards"] if empty else []
    return ", ".join([*parts, *(f"no {words}" for words in gone)])


def _is_on(device: str, card: str) -> bool:
    return device == card or device.startswith(f"{card}-")


class AnswersTest(Protocol):
    """The test module of a vendor."""

    PREFIX: str
    """What the names of the library's functions begin with."""

    def rows_of(self, function: str, folder: Path) -> list[Row]:
        """The rows of a function, as measured in a folder."""
        ...


def main(module: str, functions: Sequence[str]) -> None:
    """Write the rows of these functions of a vendor, or of all, into the page."""
    vendor: AnswersTest = import_module(module)
    page = PAGE.read_text()
    rows = dict(rows_on_page(page, vendor.PREFIX))
    for function in functions or list(rows):
        with TemporaryDirectory() as folder:
            rows[function] = vendor.rows_of(function, Path(folder))
    begin, end = f"<!-- {vendor.PREFIX} -->\n", f"<!-- end of {vendor.PREFIX} -->"
    head, _, rest = page.partition(begin)
    tail = rest.partition(end)[2]
    table = "\n".join([_HEADER, *(str(row) for function in sorted(rows) for row in rows[function])])
    PAGE.write_text(f"{head}{begin}\n{table}\n\n{end}{tail}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
