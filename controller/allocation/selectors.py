"""The selectors of a device class and a request, compiled once, and the limits on their work.

No claim or device class may keep the one deciding thread from the others. Work is counted in steps of at most two
microseconds (`driver.cel.cost.steps`), for one question (``Meter``) and for one turn of the thread (``Turn``). Counts
and not clocks decide, so the same claims and devices always get the same answer.

kube-apiserver admits far more than this: 108,000 rounds of a loop in one selector, 32 selectors in a request, 32
requests in a claim.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import inf
from typing import Final

from driver.bounded import SizedCache
from driver.cel import DevicePath, Selector, SelectorError, can_select, check_selector, compile_checked
from driver.cel.cost.steps import CHARACTER_STEPS

DEVICE_STEPS: Final = 50_000
"""Steps of one selector on one device, for loops, for text and for comparisons each. A loop over 1,000 names takes
about 20,000."""
CLAIM_STEPS: Final = 400_000
"""Steps of all selectors of one claim and of the device classes that it names, on all devices: less than a second."""
POD_STEPS: Final = 600_000
"""Steps of the selectors of all claims of a pod."""
STEPS_OF_EACH_DEVICE: Final = 200
"""Further steps of a claim, and of a pod, for each device of the cluster: five selectors that tell every device from
every other one. Such work is spread over turns."""
TURN_STEPS: Final = 200_000
"""Steps that one turn of the deciding thread takes before others get theirs. The last piece of work may exceed it: one
selector on one device, or one expression that is compiled."""
FILTER_STEPS: Final = 200
"""Steps of each request, and of each alternative, besides its selectors."""

Paths = tuple[DevicePath, ...] | None
"""The fields of a device that some selectors read; None if they may read any."""
_MOST_SELECTORS: Final = 2048
_MOST_FILTERS: Final = 4096
_MOST_DRIVERS: Final = 1 << 14
MOST_CHARACTERS: Final = 1 << 18
"""The most characters of the expressions that one cache keeps compiled. Each takes up to 100 bytes, and anybody can
make claims with other expressions."""
_MOST_READ: Final = 1 << 22
"""The most characters of the expressions whose drivers are remembered."""


class TurnEnded(Exception):
    """The turn has no steps left. Results so far are remembered, so the next turn goes on from there."""


class OutOfSteps(Exception):
    """The steps that a question may take are used up: a search has neither found anything nor proved that there is
    nothing, or selectors take more than they may.

    Attributes:
        expression: the selector that takes most; "" of a search.
        on_one_device: whether it alone takes too many on one device.
    """

    def __init__(self, expression: str = "", *, on_one_device: bool = False):
        super().__init__(expression)
        self.expression = expression
        self.on_one_device = on_one_device


class Turn:
    """The steps of one turn of the deciding thread. Without ``begin`` there is no limit.

    Attributes:
        spent: the steps of all turns so far.
    """

    def __init__(self) -> None:
        self._left: float = inf
        self.spent = 0

    def begin(self, steps: float) -> None:
        """A new turn, with so many steps."""
        self._left = steps

    def go_on(self) -> None:
        """Before a piece of work.

        Raises:
            TurnEnded: it has to wait for the next turn.
        """
        if self._left <= 0:
            raise TurnEnded

    def work(self, steps: int) -> None:
        """A piece of work was done."""
        self._left -= steps
        self.spent += steps


class Meter:
    """Counts what the selectors of one claim take. What is remembered counts like what is evaluated.

    So the answer does not depend on what was asked before.

    Attributes:
        steps: all that were counted.
        by_expression: the same by what takes them.

    Args:
        allowed: steps.
        turn: pays for what has to be evaluated.
        before: what was counted before.
    """

    def __init__(self, allowed: int, turn: Turn, before: Mapping[str, int] | None = None) -> None:
        self.turn = turn
        self.by_expression: Counter[str] = Counter(before)
        self.steps = self.by_expression.total()
        self._allowed = allowed

    def count(self, expression: str, steps: int) -> None:
        """Count steps that a selector takes.

        Raises:
            OutOfSteps: they are too many, together with those before.
        """
        self.steps += steps
        self.by_expression[expression] += steps
        if self.steps > self._allowed:
            most = max(self.by_expression, key=lambda one: (self.by_expression[one], one))
            raise OutOfSteps(most)

    def gave_up(self, expression: str) -> None:
        """The evaluation of a selector on one device was ended, because it took too many steps.

        Raises:
            OutOfSteps: always.
        """
        raise OutOfSteps(expression, on_one_device=True)


class _Unlimited(Meter):
    """Counts nothing: for what was counted before."""

    def __init__(self) -> None:
        super().__init__(0, Turn())

    def count(self, expression: str, steps: int) -> None:
        """Do nothing."""

    def gave_up(self, expression: str) -> None:
        """Do nothing: the selector fails on the device."""


UNLIMITED = _Unlimited()


class Drivers(Enum):
    """The drivers that some selectors can select. Ours are all those whose devices this controller allocates."""

    OURS = "only drivers of ours"
    OTHERS = "only other drivers"
    BOTH = "drivers of ours and others, as far as the text of the selectors tells"
    NONE = "no driver"


def drivers_of(can: Iterable[Sequence[bool]]) -> Drivers:
    """The drivers that all expressions can select, from the answer of ``driver.cel.can_select`` for each."""
    *ours, others = map(all, zip(*can, strict=True))
    if any(ours):
        return Drivers.BOTH if others else Drivers.OURS
    return Drivers.OTHERS if others else Drivers.NONE


class Filter:
    """Selectors that must all match: those of the device class first, then those of the request.

    Two filters are equal only if they are the same object; ``CompiledSelectors`` gives one object for equal selectors.

    Attributes:
        of_class, of_request: the expressions, in order.
        selectors: the same, compiled.
        paths: the fields of a device that they read.
        characters: the length of all expressions.
    """

    __slots__ = ("characters", "of_class", "of_request", "paths", "selectors")

    def __init__(self, of_class: tuple[str, ...], of_request: tuple[str, ...], selectors: tuple[Selector, ...]):
        self.of_class = of_class
        self.of_request = of_request
        self.selectors = selectors
        self.paths = _paths(selectors)
        self.characters = sum(map(len, (*of_class, *of_request)))


class CompiledSelectors:
    """Compiles selectors, and keeps those that were used last.

    Args:
        drivers: the names of the drivers whose devices this controller allocates; our own is the first.
    """

    def __init__(self, *drivers: str) -> None:
        self._drivers = drivers
        self._compiled: SizedCache[str, Selector | SelectorError] = SizedCache(
            _MOST_SELECTORS, MOST_CHARACTERS, lambda expression, _: len(expression)
        )
        self._filters: SizedCache[tuple[tuple[str, ...], tuple[str, ...]], Filter] = SizedCache(
            _MOST_FILTERS, MOST_CHARACTERS, lambda _, found: found.characters
        )
        self._can_select: SizedCache[str, tuple[bool, ...]] = SizedCache(
            _MOST_DRIVERS, _MOST_READ, lambda expression, _: len(expression)
        )

    def compile(self, expression: str) -> Selector:
        """The compiled selector.

        Raises:
            SelectorError: the expression does not compile; its author must change it.
        """
        found = self._compiled.get(expression) or self._add(expression)
        if isinstance(found, SelectorError):
            raise found
        return found

    def is_compiled(self, expression: str) -> bool:
        """True if it was compiled before, or refused."""
        return expression in self._compiled

    def drivers(self, expressions: Iterable[str]) -> Drivers:
        """The drivers that all ``expressions`` can select; every driver if there are none.

        An expression that is longer than a claim may have counts as one for any driver.
        """
        expressions = tuple(expressions)
        if sum(map(len, expressions)) * CHARACTER_STEPS > CLAIM_STEPS:
            return Drivers.BOTH
        return drivers_of(map(self._selects, expressions)) if expressions else Drivers.BOTH

    def may_select(self, wanted: Filter, driver: str) -> bool:
        """True if all selectors of the filter can select a device of the driver, as far as their text tells."""
        place = self._drivers.index(driver) if driver in self._drivers else -1
        expressions = *wanted.of_class, *wanted.of_request
        if sum(map(len, expressions)) * CHARACTER_STEPS > CLAIM_STEPS:
            return True
        return all(self._selects(expression)[place] for expression in expressions)

    def _selects(self, expression: str) -> tuple[bool, ...]:
        if expression not in self._can_select:
            self._add(expression)
        return self._can_select[expression]

    def _add(self, expression: str) -> Selector | SelectorError:
        try:
            checked = check_selector(expression)
        except SelectorError as error:
            self._can_select[expression] = can_select(None, *self._drivers)
            self._compiled[expression] = error
            return error
        self._can_select[expression] = can_select(checked, *self._drivers)
        found: Selector | SelectorError
        try:
            found = compile_checked(checked)
        except SelectorError as error:
            found = error
        self._compiled[expression] = found
        return found

    def filter(self, of_class: tuple[str, ...], of_request: tuple[str, ...]) -> Filter:
        """The filter of these selectors.

        Raises:
            SelectorError: one of them does not compile.
        """
        key = of_class, of_request
        found = self._filters.get(key)
        if found is None:
            compiled = tuple([self.compile(expression) for expression in (*of_class, *of_request)])
            found = self._filters[key] = Filter(of_class, of_request, compiled)
        return found


def _paths(selectors: tuple[Selector, ...]) -> Paths:
    found: dict[DevicePath, None] = {}
    for selector in selectors:
        if selector.paths is None:
            return None
        found.update(dict.fromkeys(selector.paths))
    return tuple(sorted(found))
