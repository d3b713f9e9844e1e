"""Selectors over the fleet: compiled once, evaluated once for devices alike in what the expression reads."""

from collections.abc import Hashable, Sequence
from typing import Final

from controller.allocation.pools import Pool, Unit
from controller.selectors import InvalidAttribute, Selector, SelectorError, SelectorFault, compile_selector
from controller.selectors.view import view
from driver.model import Version

Filter = tuple[tuple[str, ...], tuple[str, ...]]
"""Selectors of the device class, then of the request: all must hold, evaluated in this order."""
Outcome = bool | SelectorFault
Selected = Sequence[tuple[Unit, SelectorFault | None]]

_PER_POOL: Final = 64
_MOST_SELECTORS: Final = 2048


class Matching:
    """Outcomes of selectors on devices, remembered."""

    def __init__(self) -> None:
        self._compiled: dict[str, Selector | SelectorError] = {}
        self._outcomes: dict[str, dict[Hashable, Outcome]] = {}
        self._versions: dict[str, bool] = {}

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

    def selected(self, pool: Pool, wanted: Filter) -> Selected:
        """The units of the pool that all selectors select, in order, and those on which one fails (with its fault)."""
        known = pool.selected.get(wanted)
        if known is None:
            if len(pool.selected) >= _PER_POOL:
                pool.selected.clear()
            columns = [self.outcomes(pool, expression) for group in wanted for expression in group]
            known = pool.selected[wanted] = [found for unit in pool.units if (found := _joined(unit, columns))]
        return known

    def outcomes(self, pool: Pool, expression: str) -> Sequence[Outcome]:
        """What one selector says of each unit of the pool.

        Raises:
            SelectorError: it cannot be compiled.
        """
        column = pool.outcomes.get(expression)
        if column is None:
            if len(pool.outcomes) >= _PER_POOL:
                pool.outcomes.clear()
            selector = self.compile(expression)
            column = pool.outcomes[expression] = [self._outcome(selector, unit) for unit in pool.units]
        return column

    def _outcome(self, selector: Selector, unit: Unit) -> Outcome:
        if (fault := self._invalid(unit)) is not None:
            return fault
        projection = selector.projection(unit.device, unit.id.driver)
        if projection is None:
            return _evaluate(selector, unit)
        known = self._outcomes.setdefault(selector.expression, {})
        outcome = known.get(projection)
        if outcome is None:
            outcome = known[projection] = _evaluate(selector, unit)
        return outcome

    def _invalid(self, unit: Unit) -> SelectorFault | None:
        """Versions and lists may be invalid, and then every selector fails on the device."""
        for value in unit.device.attributes.values():
            if isinstance(value, Version) and self._versions.get(value.text):
                continue
            if isinstance(value, Version | tuple):
                try:
                    view(unit.device, unit.id.driver)
                except InvalidAttribute as fault:
                    return fault
                if isinstance(value, Version):
                    self._versions[value.text] = True
        return None


def _joined(unit: Unit, columns: Sequence[Sequence[Outcome]]) -> tuple[Unit, SelectorFault | None] | None:
    for column in columns:
        outcome = column[unit.index]
        if outcome is False:
            return None
        if outcome is not True:
            assert isinstance(outcome, SelectorFault)
            return unit, outcome
    return unit, None


def _evaluate(selector: Selector, unit: Unit) -> Outcome:
    try:
        return selector.matches(unit.device, unit.id.driver)
    except SelectorFault as fault:
        return fault
