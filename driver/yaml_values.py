"""YAML of others, event by event, so that a file of a few thousand slices takes seconds and not minutes.

``yaml_values`` reads it as kubectl does; timestamps stay strings, so that no input changes its meaning. ``yaml_texts``
leaves it to the caller what scalars mean. Nesting and aliases are limited, so that no input can exhaust memory.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import yaml

from driver.bare import Bare

MAX_DEPTH: Final = 100
"""Most levels of nesting in one document; no kind of the API needs nearly as many."""
MAX_ALIASED: Final = 1_000_000
"""Most values that the aliases of one document may expand to."""
MAX_TEXTS: Final = 200_000
"""Most values of a document for ``yaml_texts``, with what its aliases stand for."""

LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""For ``yaml.load``: PyYAML's loader in C, which takes a tenth of the time, wherever PyYAML was built with it."""
_CORE: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"
_NOT_TEXT: Final = ("null", "bool", "int", "float", "timestamp")
"""Tags of YAML's own types, as which a quoted scalar can be read, too."""


class InvalidDocument(Exception):
    """A document that cannot be read, or cannot be a document of Kubernetes objects.

    Attributes:
        line: from 1.
    """

    def __init__(self, message: str, line: int = 1):
        self.line = line
        super().__init__(message)


def yaml_events(text: str) -> Iterator[Any]:
    """The events of a text, with their marks. Raises ``yaml.YAMLError`` where it is not YAML."""
    return iter(yaml.parse(text, Loader=LOADER))


def yaml_values(text: str) -> Iterator[Any]:
    """The values of the documents of a text.

    Raises:
        InvalidDocument: a document cannot be one of Kubernetes objects.
        yaml.YAMLError: the text is not YAML.
    """
    reader = ValueReader()
    for event in yaml_events(text):
        if type(event) is yaml.DocumentEndEvent:
            yield reader.root
            reader = ValueReader()
        else:
            reader.take(event)


def yaml_texts(text: str) -> Any:
    """The first document of a text, whose scalars are texts (``Bare`` without quotes); None if there is none.

    Merge keys are resolved: a mapping has what it lacks from those that ``<<`` names, and the first of them counts.

    Raises:
        InvalidDocument: the document is too large or nested too deeply, or has a mapping that makes no sense.
        yaml.YAMLError: the text is not YAML.
    """
    reader = _TextReader()
    for event in yaml_events(text):
        if type(event) is yaml.DocumentEndEvent:
            break
        reader.take(event)
    return reader.root


def one_line(error: yaml.YAMLError) -> str:
    """What is wrong with a text, and where, on one line."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark else " ".join(problem.split())


@dataclass(slots=True)
class _OpenCollection:
    """A mapping or list that has not ended yet."""

    value: Any
    anchor: str | None
    before: int
    """Number of values in the document before it."""
    key: str = ""
    has_key: bool = False


class ValueReader:
    """Builds the value of one document from its events.

    Attributes:
        root: the value, when every event was taken.
    """

    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._aliased = 0

    def take(self, event: Any) -> None:
        """Take the next event. Raises InvalidDocument."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._count += 1
            value = self._value(event)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
            self._put(value, event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if len(self._open) >= MAX_DEPTH:
                raise _invalid(event, f"nested more than {MAX_DEPTH} levels deep")
            self._open.append(_OpenCollection({} if kind is yaml.MappingStartEvent else [], event.anchor, self._count))
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            ended = self._open.pop()
            self._count += 1
            self._complete(ended.value, event)
            if ended.anchor:
                self._anchors[ended.anchor] = (ended.value, self._count - ended.before)
            self._put(ended.value, event)
        elif kind is yaml.AliasEvent:
            self._put(self._alias(event), event)

    def _value(self, event: Any) -> Any:
        return _scalar(event.value, event.tag, event.implicit[0])

    def _key(self, value: Any, event: Any) -> str:
        return _key(value, event)

    def _complete(self, value: Any, event: Any) -> None:
        """Complete a mapping or list that ends."""

    def _alias(self, event: Any) -> Any:
        value, count = self._anchors.get(event.anchor, (None, 0))
        if not count:
            raise _invalid(event, f"undefined alias: *{event.anchor}")
        self._count += count
        self._aliased += count
        if self._aliased > MAX_ALIASED:
            raise _invalid(event, f"aliases expand to more than {MAX_ALIASED} values", "; write them out")
        return value

    def _put(self, value: Any, event: Any) -> None:
        if not self._open:
            self.root = value
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.has_key:
            top.has_key = False
            top.value[top.key] = value
        else:
            top.key, top.has_key = self._key(value, event), True
            if top.key in top.value:
                raise _invalid(event, f"duplicate key: {top.key!r}", "; leave one out")


class _TextReader(ValueReader):
    """See ``yaml_texts``."""

    def take(self, event: Any) -> None:
        """See ``ValueReader``."""
        super().take(event)
        if self._count > MAX_TEXTS:
            raise _invalid(event, f"has more than {MAX_TEXTS} values")

    def _value(self, event: Any) -> str:
        tag = (event.tag or "!").removeprefix(_CORE)
        is_bare = event.implicit[0] if tag == "!" else tag in _NOT_TEXT
        return Bare(event.value) if is_bare else str(event.value)

    def _key(self, value: Any, event: Any) -> str:
        return value if isinstance(value, Bare) and value == _MERGE else _key(value, event)

    def _complete(self, value: Any, event: Any) -> None:
        if not isinstance(value, dict) or _MERGE not in value:
            return
        named = value.pop(_MERGE)
        for source in named if isinstance(named, list) else [named]:
            if not isinstance(source, dict):
                raise _invalid(event, "<< names what is no mapping")
            for key, each in source.items():
                value.setdefault(key, each)


def key_of(event: Any) -> str:
    """The key that a scalar is in a mapping; "" for an alias, which ``ValueReader`` has read."""
    return _key(_scalar(event.value, event.tag, event.implicit[0]), event) if type(event) is yaml.ScalarEvent else ""


def _key(value: Any, event: Any) -> str:
    if value == _MERGE:
        raise _invalid(event, "merge keys (<<) are not supported", "; write the fields out")
    if isinstance(value, dict | list):
        raise _invalid(event, "a mapping or list cannot be used as a key")
    return value if isinstance(value, str) else json.dumps(value)


def _invalid(event: Any, problem: str, remedy: str = "") -> InvalidDocument:
    line = event.start_mark.line + 1
    return InvalidDocument(f"{problem} (line {line}){remedy}", line)


_RESOLVER: Any = yaml.resolver.Resolver()
_CONSTRUCTOR: Any = yaml.constructor.SafeConstructor()


@lru_cache(maxsize=1 << 16)
def _scalar(text: str, tag: str | None, plain: bool) -> Any:
    """The value of a scalar for kubectl: YAML 1.1, but dates and times of day stay strings."""
    if tag is None or tag == "!":
        tag = _RESOLVER.resolve(yaml.ScalarNode, text, (plain, not plain)) if plain else f"{_CORE}str"
    name = tag.removeprefix(_CORE)
    if name not in ("null", "bool", "int", "float") or ":" in text:
        return text
    try:
        return _CONSTRUCTOR.construct_object(yaml.ScalarNode(tag, text))
    except (ValueError, KeyError) as error:
        raise InvalidDocument(f"not a valid {name}: {text!r}") from error
