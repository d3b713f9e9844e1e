"""Selectors over the fleet: compiled once, evaluated once for devices alike in what the expression reads."""

from collections.abc import Hashable
from typing import Final

from controller.allocation.pools import Pool, Unit
from controller.selectors import InvalidAttribute, Selector, SelectorError, SelectorFault, compile_selector
from controller.selectors.view import view

Filter = tuple[tuple[str, ...], tuple[str, ...]]
"""Selectors of the device class, then of the request: all must hold, evaluated in this order."""
Outcome = bool | SelectorFault

_MOST_FILTERS: Final = 256
_MOST_SELECTORS: Final = 2048


class Matching:
    """Outcomes of selectors on devices, remembered."""

    def __init__(self) -> None:
        self._compiled: dict[str, Selector | SelectorError] = {}
        self._outcomes: dict[str, dict[Hashable, Outcome]] = {}

    def compile(self, expression: str) -> Selector:
        """The compiled selector.

        Raises:
            SelectorError: it cannot be compiled.
        """
        found = self._compiled.get(expression)
        if found is None:
            if len(self._compiled) >= _MOST_SELECTORS:
                self._compiled.clear()
                self._outcomes.clear()
            try:
                found = compile_selector(expression)
            except SelectorError as error:
                found = error
            self._compiled[expression] = found
        if isinstance(found, SelectorError):
            raise found
        return found

    def column(self, pool: Pool, wanted: Filter) -> list[object]:
        """Per unit of the pool: True (all selectors hold), False, or the fault of evaluating them."""
        column = pool.matches.get(wanted)
        if column is None:
            if len(pool.matches) >= _MOST_FILTERS:
                pool.matches.clear()
            expressions = [*wanted[0], *wanted[1]]
            column = [self._all(expressions, unit) for unit in pool.units]
            pool.matches[wanted] = column
        return column

    def _all(self, expressions: list[str], unit: Unit) -> Outcome:
        for expression in expressions:
            outcome = self.outcome(expression, unit)
            if outcome is not True:
                return outcome
        return True

    def outcome(self, expression: str, unit: Unit) -> Outcome:
        """What one selector says of one device.

        Raises:
            SelectorError: it cannot be compiled.
        """
        selector = self.compile(expression)
        driver = unit.id.driver
        if any(not isinstance(value, bool | int | str) for value in unit.device.attributes.values()):
            # Versions and lists may be invalid, and then every selector fails on this device.
            try:
                view(unit.device, driver)
            except InvalidAttribute as fault:
                return fault
        projection = selector.projection(unit.device, driver)
        if projection is None:
            return _evaluate(selector, unit)
        known = self._outcomes.setdefault(expression, {})
        outcome = known.get(projection)
        if outcome is None:
            outcome = known[projection] = _evaluate(selector, unit)
        return outcome


def _evaluate(selector: Selector, unit: Unit) -> Outcome:
    try:
        return selector.matches(unit.device, unit.id.driver)
    except SelectorFault as fault:
        return fault
