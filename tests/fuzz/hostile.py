"""Objects with hostile values in them, as JSON text: what an API server stores and serves as it was written."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from driver.kube.codec import encode_object
from tests.fuzz.source import Source

MOST_CHANGES: Final = 6
"""Changes of one input."""
MOST_BYTES: Final = 1_500_000
"""Of an object: etcd refuses larger ones."""
_MARK: Final = "@fuzz:"
_OFTEN: Final = (1, 2, 40, 300)
"""How often a value may be repeated."""
_RAW: Final[Sequence[bytes]] = (
    b"[" * 100 + b"]" * 100,
    b"[" * 600 + b"]" * 600,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b"[" * 20_000 + b"]" * 20_000,
    b'"\\ud800"',
    b'"\xff\xfe"',
    b"1e400",
    b"9" * 5000,
    b'{"a":1,"a":2}',
)
"""Values that only text can hold: nested deeply, no Unicode, numbers without bound, a name twice."""
_TEXTS: Final[Sequence[str]] = (
    *("", " ", "a", "x" * 64, "x" * 254, "x" * 70_000, "\u202e\x00\n", "\U0001f600" * 20, "../../etc/passwd", "a/b/c"),
    *"NaN -1 1e1000 99999999999999999999Gi 0.0000000001 2027-13-45T99:99:99Z true lode.dev n1 n1/lode.dev".split(),
)
_NUMBERS: Final = (0, -1, 1, 0.5, 2**31, 2**63, -(2**63), 2**64)
_LISTS: Final[Sequence[Any]] = ([], [None], ["", "a", 1], [[]], [{}], list(range(3000)))
_MAPS: Final[Sequence[Any]] = (
    *({}, {"": ""}, {"a": None}, {"a": {"b": {"c": {}}}}),
    *({"x" * 300: "y"}, {str(i): i for i in range(500)}),
)
_VALUES: Final[Sequence[Any]] = (*_TEXTS, None, True, *_NUMBERS, *_LISTS, *_MAPS)
Path = tuple[str | int, ...]


def mutated(base: Any, source: Source, keep: Callable[[Path], bool] = lambda path: False) -> Any:
    """A copy of ``base`` with some values replaced, removed, repeated, or put elsewhere.

    What ``keep`` says of a path stays as it is.
    """
    changed = copy.deepcopy(base)
    repeated = False
    for _ in range(1 + source.below(MOST_CHANGES)):
        paths = [path for path in _paths(changed) if not keep(path)]
        if not paths:
            return changed
        # One repetition is enough: those of repetitions are larger than any API server stores.
        repeated |= _change(changed, source.choice(paths), source, often=(1,) if repeated else _OFTEN)
        if source.exhausted:
            break
    return changed


def _change(value: Any, path: Path, source: Source, often: Sequence[int]) -> bool:
    """Change the value at the path; whether it is repeated now."""
    holder = value
    for part in path[:-1]:
        holder = holder[part]
    last = path[-1]
    match source.below(6):
        case 0:
            del holder[last]
        case 1:
            holder[last] = f"{_MARK}{source.below(len(_RAW))}"
        case 2:
            holder[last] = [copy.deepcopy(holder[last])] * source.choice(often)
            return True
        case 3:
            holder[last] = source.text()
        case 4 if isinstance(holder, dict):
            holder[source.text()] = copy.deepcopy(source.choice(_VALUES))
        case _:
            holder[last] = copy.deepcopy(source.choice(_VALUES))
    return False


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """The places of all values inside ``value``; in long lists only the first few."""
    items: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(list(enumerate(value))[:8])
    for part, inner in items:
        yield (*path, part)
        yield from _paths(inner, (*path, part))


def encoded(value: Any, most: int = MOST_BYTES) -> bytes:
    """The JSON text of a mutated value; ``{}`` if it is longer than ``most`` bytes, so that nobody could store it."""
    text = encode_object(value)
    for number, raw in enumerate(_RAW):
        text = text.replace(b'"%s%d"' % (_MARK.encode(), number), raw)
    return text if len(text) <= most else b"{}"
