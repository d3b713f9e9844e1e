"""Consoles of pages: blocks ``console`` with commands behind ``$``, each followed by what it prints."""

import re
from collections.abc import Iterator


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page's consoles, in order, and the lines that each of them prints."""
    for console in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for block in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
            command, _, printed = block.partition("\n")
            yield command, printed.rstrip("\n").split("\n")


def assert_printed(printed: str, told: list[str]) -> None:
    """Compare with what the page tells, of which a line that ends in ... is longer."""
    lines = printed.rstrip("\n").split("\n")
    assert [
        line[: len(said) - 3] + "..." if said.endswith("...") else line for line, said in zip(lines, told, strict=True)
    ] == told
