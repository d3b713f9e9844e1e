"""The selectors of a device class and a request, compiled once."""

from typing import Final

from controller.selectors import Path, Selector, SelectorError, compile_selector
from driver.bounded import BoundedCache

Paths = tuple[Path, ...] | None
"""What some selectors read of a device; None where it may be anything."""

_MOST_SELECTORS: Final = 2048
_MOST_FILTERS: Final = 4096


class Filter:
    """Selectors that must all match: those of the device class first, then those of the request.

    Two filters are equal only if they are the same object; ``Selectors`` gives one object for equal selectors.

    Attributes:
        of_class, of_request: the expressions, in order.
        selectors: the same, compiled.
        paths: what they read.
    """

    __slots__ = ("of_class", "of_request", "paths", "selectors")

    def __init__(self, of_class: tuple[str, ...], of_request: tuple[str, ...], selectors: tuple[Selector, ...]):
        self.of_class = of_class
        self.of_request = of_request
        self.selectors = selectors
        self.paths = _paths(selectors)


class Selectors:
    """Every selector that was asked for lately, compiled."""

    def __init__(self) -> None:
        self._compiled: BoundedCache[str, Selector | SelectorError] = BoundedCache(_MOST_SELECTORS)
        self._filters: BoundedCache[tuple[tuple[str, ...], tuple[str, ...]], Filter] = BoundedCache(_MOST_FILTERS)

    def compile(self, expression: str) -> Selector:
        """The compiled selector.

        Raises:
            SelectorError: the expression does not compile; its author must change it.
        """
        found = self._compiled.get(expression)
        if found is None:
            try:
                found = compile_selector(expression)
            except SelectorError as error:
                found = error
            self._compiled[expression] = found
        if isinstance(found, SelectorError):
            raise found
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
    found: dict[Path, None] = {}
    for selector in selectors:
        if selector.paths is None:
            return None
        found.update(dict.fromkeys(selector.paths))
    return tuple(sorted(found))
