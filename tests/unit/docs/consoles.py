"""Consoles of pages: blocks ``console`` with commands behind ``$``, each followed by what it prints."""

import re
from collections.abc import Iterator
from dataclasses import dataclass


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page's consoles, in order, and the lines that each of them prints."""
    for console in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for block in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
            command, _, printed = block.partition("\n")
            yield command, printed.rstrip("\n").split("\n")


@dataclass(frozen=True, slots=True)
class Step:
    """What a reader of a page does next: save a file, or call a command."""

    text: str
    """The content of the file, or what the command prints."""
    file: str = ""
    """Its name; "" for a command."""
    command: str = ""


def steps(text: str) -> Iterator[Step]:
    """The steps of a page, in order: blocks ``yaml`` below a paragraph that names a file, and commands of consoles."""
    for block in re.finditer(r"```(yaml|console)\n(.*?)```", text, re.DOTALL):
        above = text[: block.start()].rstrip().rpartition("\n\n")[2]
        if block[1] == "yaml":
            (file,) = re.findall(r"`([\w-]+\.yaml)`", above)
            yield Step(block[2], file=file)
        for command, printed in commands(block[0]):
            yield Step("\n".join(printed), command=command)


def unwrapped(told: list[str]) -> list[str]:
    """The lines that a page tells, of which those that are indented by six blanks go on with the line above."""
    return "\n".join(told).replace("\n      ", " ").split("\n")


def assert_printed(printed: str, told: list[str]) -> None:
    """Compare with what the page tells, of which a line that ends in ... is longer."""
    lines = printed.rstrip("\n").split("\n")
    assert [
        line[: len(said) - 3] + "..." if said.endswith("...") else line for line, said in zip(lines, told, strict=True)
    ] == told
