"""The documents of a file as parts of its text, and the text with changed and further documents."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.convert.edits import TextEdits, block_text
from cli.convert.nodes import PlacedDocument, read_placed
from driver.yaml_values import MAX_DEPTH, InvalidDocument

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
