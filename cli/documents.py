"""Objects in files: YAML and JSON, documents and Lists, as ``kubectl get -o yaml`` prints and as people write them.

YAML is read event by event, so a file of a few thousand slices takes seconds and not minutes. Nesting and aliases are
limited, and timestamps stay strings, so that no input can exhaust memory or change its meaning.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TextIO

import yaml

from driver.errors import LodeError

MAX_DEPTH: Final = 100
"""Most levels of nesting in one document; no kind of the API needs nearly as many."""
MAX_ALIASED: Final = 1_000_000
"""Most values that the aliases of one document may expand to."""

_ENDINGS = (".yaml", ".yml", ".json")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """The place where an object was read: file (``-`` is standard input), document in it (from 1), index in a List
    (from 0)."""

    file: str
    document: int = 0
    item: int = -1

    def __str__(self) -> str:
        text = self.file if self.file != "-" else "standard input"
        if self.document:
            text += f", document {self.document}"
        return text if self.item < 0 else f"{text}, items[{self.item}]"


LIVE: Final = Origin("the cluster")
"""The origin of objects that were read from the API."""


@dataclass(frozen=True, slots=True, order=True)
class InputFault:
    """One thing wrong with the input: its origin, object and field, and a message that says what to do about it."""

    origin: Origin
    subject: str
    """``Pod default/train``; "" if no object could be read."""
    field: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.origin), self.subject, self.field, self.message) if part)


class BadInput(LodeError):
    """Objects cannot be used as written; their author must change them. Carries all faults at once."""

    def __init__(self, faults: Sequence[InputFault]):
        self.faults = tuple(sorted(faults))
        super().__init__("\n".join(map(str, self.faults)))


@dataclass(frozen=True, slots=True)
class Document:
    """One value of a file; the items of a List are documents of their own."""

    origin: Origin
    value: Any


@dataclass(slots=True)
class Documents:
    """All values of some files, and the faults of what could not be read."""

    found: list[Document] = field(default_factory=list)
    faults: list[InputFault] = field(default_factory=list)

    def add_fault(self, origin: Origin, message: str) -> None:
        """Add that something cannot be read."""
        self.faults.append(InputFault(origin, "", "", message))


def read_documents(sources: Sequence[str], stdin: TextIO) -> Documents:
    """The documents of files, of folders (their ``.yaml``, ``.yml`` and ``.json`` files), and of ``stdin`` for ``-``.

    Raises nothing: what cannot be read is among the faults, and everything else is read.
    """
    documents = Documents()
    for source in dict.fromkeys(sources):
        for name in _files(source, documents):
            try:
                text = stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
            except OSError as error:
                documents.add_fault(
                    Origin(name), f"cannot be read: {error.strerror or error}; give a file, folder or -"
                )
            except UnicodeDecodeError as error:
                documents.add_fault(Origin(name), f"is not UTF-8 text (byte {error.start}); save it as UTF-8")
            else:
                parse(text, name, documents)
    return documents


def _files(source: str, documents: Documents) -> Sequence[str]:
    folder = Path(source)
    if source == "-" or not folder.is_dir():
        return [source]
    try:
        names = sorted(str(path) for path in folder.iterdir() if path.suffix in _ENDINGS and path.is_file())
    except OSError as error:
        documents.add_fault(Origin(source), f"cannot be read: {error.strerror or error}")
        return []
    if not names:
        documents.add_fault(Origin(source), f"no file that ends in {', '.join(_ENDINGS)}; give another folder")
    return names


def parse(text: str, file: str, into: Documents) -> None:
    """Add the documents of one file, or its faults and the documents before the first that cannot be read."""
    if text.lstrip()[:1] == "{":
        try:
            return _add(file, list(_json(text)), into)
        except RecursionError:
            return into.add_fault(Origin(file, 1), f"nested more than {MAX_DEPTH} levels deep")
        except ValueError as error:
            problem = f"is not JSON: {error}"
    else:
        problem = ""
    values: list[Any] = []
    try:
        values.extend(_yaml(text))
    except _InvalidDocument as error:
        into.add_fault(Origin(file, len(values) + 1), str(error))
    except yaml.YAMLError as error:
        into.add_fault(Origin(file, len(values) + 1), problem or f"is not YAML: {_one_line(error)}")
    return _add(file, values, into)


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark else " ".join(problem.split())


def _json(text: str) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        value, at = decoder.raw_decode(text, at)
        yield value


def _add(file: str, values: Sequence[Any], into: Documents) -> None:
    for number, value in enumerate(values, start=1):
        origin = Origin(file, number)
        if isinstance(value, dict) and isinstance(value.get("items"), list) and _is_list(value):
            for index, item in enumerate(value["items"]):
                into.found.append(Document(Origin(file, number, index), _with_kind(value, item)))
        elif value is not None:
            into.found.append(Document(origin, value))


def _is_list(value: dict[str, Any]) -> bool:
    return isinstance(value.get("kind"), str) and value["kind"].endswith("List")


def _with_kind(parent: dict[str, Any], item: Any) -> Any:
    """The item of a List with its kind: an item of a ``PodList`` need not repeat that it is a Pod."""
    kind = parent["kind"].removesuffix("List")
    if not isinstance(item, dict) or not kind:
        return item
    return {"apiVersion": parent.get("apiVersion"), "kind": kind, **item}


# YAML


class _InvalidDocument(Exception):
    """A document that is YAML, but cannot be a document of Kubernetes objects."""


@dataclass(slots=True)
class _OpenCollection:
    """A mapping or list that has not ended yet."""

    value: Any
    anchor: str | None
    before: int
    """Number of values in the document before it."""
    key: str = ""
    has_key: bool = False


def _yaml(text: str) -> Iterator[Any]:
    reader = _Reader()
    for event in yaml.parse(text, Loader=_LOADER):
        if type(event) is yaml.DocumentEndEvent:
            yield reader.root
            reader = _Reader()
        else:
            reader.take(event)


class _Reader:
    """Builds one document from its events."""

    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._aliased = 0

    def take(self, event: Any) -> None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._count += 1
            value = _scalar(event.value, event.tag, event.implicit[0])
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
            self._put(value, event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if len(self._open) >= MAX_DEPTH:
                raise _InvalidDocument(f"nested more than {MAX_DEPTH} levels deep{_line(event)}")
            self._open.append(_OpenCollection({} if kind is yaml.MappingStartEvent else [], event.anchor, self._count))
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            ended = self._open.pop()
            self._count += 1
            if ended.anchor:
                self._anchors[ended.anchor] = (ended.value, self._count - ended.before)
            self._put(ended.value, event)
        elif kind is yaml.AliasEvent:
            self._put(self._alias(event), event)

    def _alias(self, event: Any) -> Any:
        value, count = self._anchors.get(event.anchor, (None, 0))
        if not count:
            raise _InvalidDocument(f"undefined alias: *{event.anchor}{_line(event)}")
        self._count += count
        self._aliased += count
        if self._aliased > MAX_ALIASED:
            raise _InvalidDocument(f"aliases expand to more than {MAX_ALIASED} values{_line(event)}; write them out")
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
            top.key, top.has_key = _key(value, event), True
            if top.key in top.value:
                raise _InvalidDocument(f"duplicate key: {top.key!r}{_line(event)}; leave one out")


def _key(value: Any, event: Any) -> str:
    if value == "<<":
        raise _InvalidDocument(f"merge keys (<<) are not supported{_line(event)}; write the fields out")
    if isinstance(value, dict | list):
        raise _InvalidDocument(f"a mapping or list cannot be used as a key{_line(event)}")
    return value if isinstance(value, str) else json.dumps(value)


def _line(event: Any) -> str:
    return f" (line {event.start_mark.line + 1})"


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
        raise _InvalidDocument(f"not a valid {name}: {text!r}") from error
