"""Objects in files: YAML and JSON, documents and Lists, as ``kubectl get -o yaml`` prints and as people write them.

Nesting and aliases are limited, so that no input can exhaust memory (``yaml_values``).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

import yaml

from driver.errors import LodeError
from driver.yaml_values import MAX_DEPTH, InvalidDocument, one_line, yaml_values

_ENDINGS = (".yaml", ".yml", ".json")


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
    for name, text in read_texts(sources, stdin, documents).items():
        parse(text, name, documents)
    return documents


def read_texts(sources: Sequence[str], stdin: TextIO, into: Documents, *, recursive: bool = False) -> dict[str, str]:
    """The texts of files as they are, by name; what cannot be read is added to the faults.

    Args:
        recursive: whether folders in folders are read, too, except hidden ones.
    """
    texts = {}
    for source in dict.fromkeys(sources):
        for name in _files(source, recursive, into):
            try:
                texts[name] = stdin.read() if name == "-" else Path(name).read_bytes().decode()
            except OSError as error:
                into.add_fault(Origin(name), f"cannot be read: {error.strerror or error}; give a file, folder or -")
            except UnicodeDecodeError as error:
                into.add_fault(Origin(name), f"is not UTF-8 text (byte {error.start}); save it as UTF-8")
    return texts


def _files(source: str, recursive: bool, documents: Documents) -> Sequence[str]:
    folder = Path(source)
    if source == "-" or not folder.is_dir():
        return [source]
    try:
        names = sorted(str(path) for path in _below(folder, recursive) if path.suffix in _ENDINGS and path.is_file())
    except OSError as error:
        documents.add_fault(Origin(source), f"cannot be read: {error.strerror or error}")
        return []
    if not names:
        documents.add_fault(Origin(source), f"no file that ends in {', '.join(_ENDINGS)}; give another folder")
    return names


def _below(folder: Path, recursive: bool) -> Iterator[Path]:
    for path in folder.iterdir():
        if recursive and path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            yield from _below(path, recursive)
        else:
            yield path


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
        values.extend(yaml_values(text))
    except InvalidDocument as error:
        into.add_fault(Origin(file, len(values) + 1), str(error))
    except yaml.YAMLError as error:
        into.add_fault(Origin(file, len(values) + 1), problem or f"is not YAML: {one_line(error)}")
    return _add(file, values, into)


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
