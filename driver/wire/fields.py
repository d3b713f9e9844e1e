"""Helpers of all translations, and the type of JSON objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from driver.model import unqualify
from driver.quantity import Quantity

Json = dict[str, Any]
T = TypeVar("T")


def many(items: Sequence[Json] | None, decode: Callable[[Json], T]) -> tuple[T, ...]:
    """Every item decoded; none for an absent list."""
    return tuple(decode(item) for item in items or ())


def text(value: Any) -> str:
    """A text; "" for null.

    Raises:
        TypeError: it is of another type. Indexes have texts as keys, so this must not be found out later.
    """
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"{type(value).__name__} in the place of a text")


def integer(value: Any) -> int:
    """An integer; 0 for null.

    Raises:
        TypeError: it is of another type. Decisions compare and negate integers, so this must not be found out later.
    """
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value or 0
    raise TypeError(f"{type(value).__name__} in the place of an integer")


def texts(values: Iterable[Any] | None) -> tuple[str, ...]:
    """A list of texts; none for an absent list.

    Raises:
        TypeError: it is no list, or something in it is no text.
    """
    if isinstance(values, str):
        raise TypeError("str in the place of a list")
    return tuple(map(text, values or ()))


def text_map(raw: Mapping[str, Any] | None) -> dict[str, str]:
    """A map of names to texts, such as labels.

    Raises:
        AttributeError, TypeError: it is no map, or something in it is no text.
    """
    return {name: text(value) for name, value in (raw or {}).items()}


def quantities(raw: Mapping[str, str] | None) -> dict[str, Quantity]:
    """A map of names to quantities."""
    return {name: Quantity.parse(str(value)) for name, value in (raw or {}).items()}


def by_short_name(raw: Mapping[str, Json], driver: str) -> Iterator[tuple[str, bool, Json]]:
    """Capacities by their names without the driver's own domain, each with whether it was spelled with it.

    Of two spellings of one name the one with the domain counts, as in Kubernetes.
    """
    own = f"{driver}/"
    for name, value in raw.items():
        short = unqualify(name, driver)
        if short != name or own + name not in raw:
            yield short, short != name, value


def sparse(**fields: Any) -> Json:
    """An object without its empty fields."""
    return {name: value for name, value in fields.items() if value not in (None, "", (), [], {}, False)}
