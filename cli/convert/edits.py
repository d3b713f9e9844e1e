"""The text of a file with other values and documents: only what differs is written anew, and comments stay.

A comment at the end of a line that is taken out goes with it (``TextEdits.taken``); one on a line of its own stays.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from cli.convert.nodes import PlacedDocument, TextNode, read_placed
from driver.yaml_values import MAX_DEPTH, InvalidDocument

_WIDTH: Final = 1 << 20
"""Lines are never wrapped."""


class CannotEdit(Exception):
    """The text cannot be changed there.

    Attributes:
        line: from 1.
    """

    def __init__(self, line: int, message: str):
        self.line = line
        super().__init__(message)


@dataclass(slots=True)
class TextEdits:
    """Changes of one text.

    Attributes:
        text: as it was read.
        aliased: anchors that an alias names.
        taken: the lines that were taken out, as they were written.
    """

    text: str
    aliased: frozenset[str] = frozenset()
    taken: list[str] = field(default_factory=list)
    _made: list[tuple[int, int, str]] = field(default_factory=list)

    def change_at(self, root: TextNode, path: Sequence[str | int], old: Any, new: Any) -> None:
        """Write ``new`` in place of ``old``, which is the value at the end of a path. Raises CannotEdit."""
        node = root
        for step in path:
            self._check_alone(node)
            child = node.child(step)
            if child is None:
                raise CannotEdit(node.line, f"has an alias as a key; write {step} out")
            node = child
        self.change(node, old, new)

    def _check_alone(self, node: TextNode) -> None:
        if node.kind == "alias":
            raise CannotEdit(node.line, "is an alias (*); write the value out here")
        if node.anchor in self.aliased:
            raise CannotEdit(node.line, f"an alias names it (*{node.anchor}); write the value out in both places")

    def change(self, node: TextNode, old: Any, new: Any) -> None:
        """Write ``new`` in place of ``old``, which is the value of the node. Raises CannotEdit."""
        if old == new:
            return
        self._check_alone(node)
        if node.kind == "mapping" and isinstance(new, dict) and old and new:
            self._change_mapping(node, old, new)
        elif node.kind == "list" and isinstance(new, list) and old and len(new) >= len(old):
            self._change_list(node, old, new)
        else:
            space = " " if self.text[node.start - 1 : node.start] == ":" else ""
            self._replace(node.start, node.last, space + _flow(new, self._quoted(node)))

    def result(self, start: int, end: int) -> str:
        """The text between two places, with the changes that were made there."""
        parts, at = [], start
        # Places that are equal stay in the order of the changes: what is nested deeper was changed first.
        for begin, stop, text in sorted(self._made, key=lambda edit: edit[:2]):
            if start <= begin and stop <= end:
                parts += [self.text[at:begin], text]
                at = stop
        return "".join((*parts, self.text[at:end]))

    def _replace(self, start: int, end: int, text: str) -> None:
        self._made.append((start, end, text))

    def _change_mapping(self, node: TextNode, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        # The reader refuses keys that are there twice, so both have the same order.
        entries = dict(zip(old, zip(node.keys, node.children, strict=True), strict=True))
        gone = [name for name in old if name not in new]
        added = {name: value for name, value in new.items() if name not in old}
        if node.flow and (gone or added):
            return self._replace(node.start, node.last, self._flow_mapping(node, entries, old, new))
        for name, (_, child) in entries.items():
            if name in new:
                self.change(child, old[name], new[name])
        if not gone and not added:
            return None
        first = node.keys[0]
        if self._begins_line(first):
            for name in gone:
                self._take_lines(*entries[name])
        else:
            self._take_first(entries, new, gone, added)
            if len(gone) == len(entries):
                return None
        if added:
            self._insert_below(node, _block(added, first.column, self._dashes(node)))
        return None

    def _change_list(self, node: TextNode, old: Sequence[Any], new: Sequence[Any]) -> None:
        for child, before, after in zip(node.children, old, new, strict=False):
            self.change(child, before, after)
        added = list(new[len(old) :])
        if not added:
            return
        if node.flow:
            at = node.children[-1].last
            self._replace(at, at, "".join(f", {_flow(value, self._quoted(node))}" for value in added))
        else:
            self._insert_below(node, _block(added, node.column, 0))

    # Lines

    def _begins_line(self, node: TextNode) -> bool:
        return not self.text[self._line_start(node.start) : node.start].strip()

    def _line_start(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1

    def _line_end(self, at: int) -> int:
        """Index behind the line end, or of the end of the text."""
        found = self.text.find("\n", at)
        return len(self.text) if found < 0 else found + 1

    def _take_lines(self, key: TextNode, value: TextNode) -> None:
        start, end = self._line_start(key.start), self._line_end(max(key.last, value.last))
        lines = self.text[start:end].splitlines(keepends=True)
        comments = [] if self._has_lines(value) else [line for line in lines if line.lstrip().startswith("#")]
        self.taken += [line.strip() for line in lines if line not in comments and line.strip()]
        self._replace(start, end, "".join(comments))

    def _has_lines(self, node: TextNode) -> bool:
        """Whether a text in the value goes over several lines, which may begin with # and are no comments."""
        if node.kind == "scalar":
            return "\n" in self.text[node.start : node.last]
        return any(map(self._has_lines, node.children))

    def _take_first(
        self,
        entries: Mapping[str, tuple[TextNode, TextNode]],
        new: Mapping[str, Any],
        gone: Sequence[str],
        added: Mapping[str, Any],
    ) -> None:
        """Take keys out of a mapping whose first key stands behind something else, such as the dash of a list."""
        names = list(entries)
        kept = next((number for number, name in enumerate(names) if name in new), len(names))
        for name in gone:
            if names.index(name) > kept:
                self._take_lines(*entries[name])
        if not kept:
            return
        first, last = entries[names[0]][0], entries[names[kept - 1]][1]
        self.taken += [line.strip() for line in self.text[first.start : last.last].splitlines()]
        if kept < len(names):
            self._replace(first.start, entries[names[kept]][0].start, "")
        else:
            self._replace(first.start, last.last, _block(added, first.column, 0).strip())

    def _insert_below(self, node: TextNode, block: str) -> None:
        at = self._line_end(max(node.last, node.keys[-1].last if node.keys else 0))
        block = block.replace("\n", "\r\n") if "\r\n" in self.text else block
        if at and self.text[at - 1] != "\n":
            block = "\n" + block.rstrip()
        self._replace(at, at, block)

    def _dashes(self, node: TextNode) -> int:
        """Columns by which the text indents lists below their keys."""
        for key, child in zip(node.keys, node.children, strict=True):
            if child.kind == "list" and not child.flow:
                return child.column - key.column
        return 0

    # Brackets

    def _quoted(self, node: TextNode) -> bool:
        """Whether the text around is JSON."""
        return bool(re.match(r"\s*[{\[]\s*[\"\]}]", self.text[node.start : node.start + 200])) and node.flow

    def _flow_mapping(
        self,
        node: TextNode,
        entries: Mapping[str, tuple[TextNode, TextNode]],
        old: Mapping[str, Any],
        new: Mapping[str, Any],
    ) -> str:
        quoted, parts = self._quoted(node), []
        for name, value in new.items():
            if name in entries:
                key, child = entries[name]
                inner = TextEdits(self.text, self.aliased, self.taken)
                inner.change(child, old[name], value)
                parts.append(self.text[key.start : child.start] + inner.result(child.start, child.last))
            else:
                parts.append(f"{_flow(name, quoted)}: {_flow(value, quoted)}")
        self.taken += [self.text[key.start : child.last] for name, (key, child) in entries.items() if name not in new]
        before = self.text[node.start + 1 : node.keys[0].start]
        behind = self.text[node.children[-1].last : node.last - 1].lstrip(",")
        if "#" in before + behind:
            raise CannotEdit(node.line, "has a comment between brackets; write it without brackets")
        return "{" + before + ("," + (before if "\n" in before else " ")).join(parts) + behind + "}"


class _Dumper(yaml.SafeDumper):
    """Writes lists below their keys with or without indentation."""

    dashes = 0

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless and not self.dashes)

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _IndentingDumper(_Dumper):
    dashes = 2


def _block(value: Any, column: int, dashes: int) -> str:
    """The lines of a value, indented to a column."""
    dumper = _IndentingDumper if dashes else _Dumper
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, default_flow_style=False, width=_WIDTH)
    return "".join(f"{' ' * column}{line}\n" for line in text.splitlines())


def _flow(value: Any, quoted: bool) -> str:
    """A value on one line, as JSON or as YAML."""
    if quoted:
        return json.dumps(value, ensure_ascii=False)
    text: str = yaml.dump([value], Dumper=_Dumper, sort_keys=False, default_flow_style=True, width=_WIDTH)
    return text.strip()[1:-1]


def block_text(value: Any) -> str:
    """A new document."""
    return _block(value, 0, 0)


_SPACE: Final = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A document of a file.

    Attributes:
        text: that the places of the document refer to: of the whole file, or of one object of a stream of JSON.
        before: lines of the file before the text.
        is_json: whether further documents are written as JSON.
    """

    text: str
    document: PlacedDocument
    before: int = 0
    is_json: bool = False

    def line(self, line: int) -> int:
        """A line of the text as a line of the file."""
        return self.before + line


def parts_of(text: str) -> list[TextPart]:
    """The documents of a file: YAML, or JSON objects one after the other.

    Raises:
        InvalidDocument: the text cannot be read.
    """
    is_json = text.lstrip()[:1] == "{"
    try:
        documents = read_placed(text)
    except InvalidDocument:
        if not is_json:
            raise
        return list(_json_parts(text))
    return [TextPart(text, document, 0, is_json and len(documents) == 1) for document in documents]


def _json_parts(text: str) -> Iterable[TextPart]:
    decoder, start, before, length = json.JSONDecoder(), 0, 0, len(text.rstrip())
    while start < length:
        at = _SPACE.match(text, start).end()  # type: ignore[union-attr]
        line = before + text.count("\n", start, at) + 1
        try:
            end = decoder.raw_decode(text, at)[1]
        except RecursionError:
            raise InvalidDocument(f"nested more than {MAX_DEPTH} levels deep", line) from None
        except ValueError as error:
            raise InvalidDocument(f"is not JSON: {error}", line) from None
        end = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        (document,) = read_placed(text[start:end])
        yield TextPart(text[start:end], document, before, is_json=True)
        before += text.count("\n", start, end)
        start = end


def written(parts: Sequence[tuple[TextPart, TextEdits, Sequence[tuple[Mapping[str, Any], Sequence[str]]]]]) -> str:
    """The text of all parts, each followed by its further documents.

    Args:
        parts: with the changes of each, and the further documents with the lines that they stand for.
    """
    found = []
    for part, edits, more in parts:
        text = edits.result(part.document.start, part.document.end)
        ends = "" if text.endswith("\n") or not more else "\n"
        found.append(text + ends)
        found += [_json(one) if part.is_json else _yaml(one, lines, "\r\n" in text) for one, lines in more]
    return "".join(found)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _yaml(value: Mapping[str, Any], lines: Sequence[str], crlf: bool) -> str:
    comment = "".join(f"#   {line}\n" for line in lines)
    text = "---\n" + (f"# In place of\n{comment}" if comment else "") + block_text(value)
    return text.replace("\n", "\r\n") if crlf else text


def read_back(text: str) -> list[Any]:
    """The values of the documents that are not empty."""
    return [part.document.value for part in parts_of(text) if part.document.value is not None]
