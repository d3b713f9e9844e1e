"""YAML documents with the place of every value in the text, so that a change touches nothing else.

PyYAML tells where each value begins and ends. A library that writes documents anew from values, even one that keeps
comments, indents them its own way and loses the comments of what is taken out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from driver.yaml_values import InvalidDocument, ValueReader, key_of, one_line, yaml_events


@dataclass(slots=True)
class TextNode:
    """A value in the text.

    Attributes:
        start: index of its first character, that of an anchor if it has one.
        last: index behind its last character; comments and line ends that follow are not part of it.
        line: from 1.
        column: from 0; of a collection, that of its first entry.
        flow: whether it is written in brackets.
        anchor: "" if it has none.
        keys: of a mapping; the nodes of its keys.
        names: of a mapping; its keys as texts.
        children: of a mapping its values, of a list its entries.
    """

    kind: Literal["scalar", "mapping", "list", "alias"]
    start: int
    last: int
    line: int
    column: int
    flow: bool = False
    anchor: str = ""
    keys: list["TextNode"] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    children: list["TextNode"] = field(default_factory=list)

    def child(self, step: str | int) -> "TextNode | None":
        """The value of a key, or the entry of a list; None if there is no such one."""
        if isinstance(step, int):
            return self.children[step] if self.kind == "list" and step < len(self.children) else None
        return self.children[self.names.index(step)] if self.kind == "mapping" and step in self.names else None

    def at(self, path: tuple[str | int, ...]) -> "TextNode":
        """The value at the end of a path, or the last one on the way to it that the text has."""
        node = self
        for step in path:
            found = node.child(step)
            if found is None:
                break
            node = found
        return node


def line_of(node: TextNode, field: str) -> int:
    """The line of a field below a node, or of the last thing on the way to it that the text has."""
    line = node.line
    while field:
        if node.kind == "list":
            match = re.match(r"\[(\d+)\]\.?", field)
            child = node.child(int(match[1])) if match else None
            if match is None or child is None:
                return line
            node, field, line = child, field[match.end() :], child.line
            continue
        names = [name for name in node.names if re.match(rf"(\[{re.escape(name)}\]|{re.escape(name)}(?![\w-]))", field)]
        if not names:
            return line
        name = max(names, key=len)
        number = node.names.index(name)
        line, node = node.keys[number].line, node.children[number]
        field = field.removeprefix(f"[{name}]" if field.startswith("[") else name).removeprefix(".")
    return line


@dataclass(frozen=True, slots=True)
class PlacedDocument:
    """A document and its place in the text.

    Attributes:
        node: None if the document is empty.
        start: index of its first character, that of its marker (``---``) if it has one.
        end: index of the next document, or of the end of the text.
        aliased: anchors that an alias names.
    """

    value: Any
    node: TextNode | None
    start: int
    end: int
    aliased: frozenset[str]


def read_placed(text: str) -> list[PlacedDocument]:
    """The documents of a text.

    Raises:
        InvalidDocument: the text is not YAML, or a document cannot be one of Kubernetes objects.
    """
    try:
        return list(_documents(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InvalidDocument(f"is not YAML: {one_line(error)}", mark.line + 1 if mark else 1) from error


def _documents(text: str) -> Iterator[PlacedDocument]:
    values, nodes, start = ValueReader(), _NodeReader(text), 0
    pending: tuple[Any, TextNode | None, frozenset[str]] | None = None
    for event in yaml_events(text):
        if type(event) is yaml.DocumentStartEvent:
            begins = _index(event.start_mark) if event.explicit else start
            if pending is not None:
                yield PlacedDocument(pending[0], pending[1], start, begins, pending[2])
                start = begins
        elif type(event) is yaml.DocumentEndEvent:
            pending = (values.root, nodes.root, frozenset(nodes.aliased))
            values, nodes = ValueReader(), _NodeReader(text)
        else:
            # The reader of values comes first: it refuses what is too deep.
            values.take(event)
            nodes.take(event)
    if pending is not None:
        yield PlacedDocument(pending[0], pending[1], start, len(text), pending[2])


def _index(mark: Any) -> int:
    return int(mark.index)


class _NodeReader:
    """Builds the nodes of one document from its events, which the reader of values has accepted."""

    def __init__(self, text: str) -> None:
        self.root: TextNode | None = None
        self.aliased: set[str] = set()
        self._text = text
        self._open: list[TextNode] = []
        self._key: TextNode | None = None
        self._keys: list[TextNode | None] = []

    def take(self, event: Any) -> None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            node = self._node("scalar", event)
            node.last = self._end_of_scalar(event)
            self._put(node, event)
        elif kind is yaml.AliasEvent:
            self.aliased.add(event.anchor)
            self._put(self._node("alias", event), event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            node = self._node("mapping" if kind is yaml.MappingStartEvent else "list", event)
            node.flow = bool(event.flow_style)
            self._open.append(node)
            self._keys.append(None)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            node = self._open.pop()
            self._keys.pop()
            if node.flow:
                node.last = event.end_mark.index
            elif node.children:
                node.last = node.children[-1].last
                node.column = node.keys[0].column if node.kind == "mapping" else node.column
            self._put(node, event)

    def _node(self, kind: Literal["scalar", "mapping", "list", "alias"], event: Any) -> TextNode:
        start, end = event.start_mark, event.end_mark
        return TextNode(kind, start.index, end.index, start.line + 1, start.column, anchor=event.anchor or "")

    def _end_of_scalar(self, event: Any) -> int:
        """A literal or folded text ends with its last line that is not empty."""
        start, end = int(event.start_mark.index), int(event.end_mark.index)
        return start + len(self._text[start:end].rstrip()) if event.style in ("|", ">") else end

    def _put(self, node: TextNode, event: Any) -> None:
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if parent.kind == "list":
            parent.children.append(node)
        elif self._keys[-1] is None:
            self._keys[-1] = node
            parent.keys.append(node)
            parent.names.append(key_of(event))
        else:
            self._keys[-1] = None
            parent.children.append(node)
