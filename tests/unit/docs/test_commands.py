"""Commands in pages: each ``lode`` that a page calls exists, and so does every option of it, with its value."""

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from io import StringIO

import pytest

from cli.commands import COMMANDS
from tests.unit.docs.pages import PAGES, page

BEFORE = {"", "$", "kubectl", "--"}
"""What ``lode`` stands behind where it is called; behind another word it is a release of Helm, or a name."""
OPTION = re.compile(r"(?:--[a-z][a-z-]+|-[a-zA-Z])(?![\w-])")
PLACEHOLDER = re.compile(r"[A-Z/]+|.*[$<].*|\.\.\.")
OF_OTHERS = {
    "--all",
    "--alone",
    "--archive",
    "--ignore-dra-requests",
    "--post-renderer",
    "--root-dir",
    "--runtime-config",
    "--scale-down-unneeded-time",
    "--search",
    "--set",
}
"""Options of other programs that pages name without the program."""


def code_of(text: str) -> Iterator[str]:
    """The code of a page: the lines of its blocks, with those that a backslash continues, and what stands in a line."""
    blocks = re.compile(r"^ *```(?!mermaid)\w*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
    for block in blocks.findall(text):
        yield from re.sub(r"\\\n\s*", "", block).splitlines()
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", blocks.sub("", text)))


def calls(text: str) -> Iterator[list[str]]:
    """What follows ``lode`` in each call of it: the command and its words."""
    for line in code_of(text):
        for part in re.split(r"\s#\s|[|;&]|\s\d?>+\S*|\$\(|\)", line):
            try:
                words = shlex.split(part)
            except ValueError:  # a quotation goes on
                continue
            at = next((at for at, word in enumerate(words) if word == "lode" and ["", *words][at] in BEFORE), None)
            if at is not None and re.fullmatch(r"[a-z]+", "".join(words[at + 1 : at + 2])):
                yield words[at + 1 :]


@cache
def options_in_help(command: str) -> frozenset[str]:
    """Those of a program of its own, whose parser is no value."""
    program = import_module(COMMANDS[command].work)
    printed = StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        program.main(["--help"])
    return frozenset(OPTION.findall(printed.getvalue()))


def parsers(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[argparse.ArgumentParser]:
    """A parser and, if it has commands of its own, those that the words name, or all if they name none."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            named = [made for name, made in action.choices.items() if {name, name.removesuffix("s")} & {*words}]
            found += named or action.choices.values()
    return found


def faults(called: Sequence[str]) -> Iterator[str]:
    """What is wrong with a call."""
    name, *words = called
    command = COMMANDS.get(name)
    if command is None:
        if name != "version":  # the only one without a module of its own
            yield f"no command {name}"
    elif command.parser is None:
        for word in words:
            if OPTION.match(word) and word.partition("=")[0] not in options_in_help(name):
                yield f"{name} has no {word}"
    else:
        known = parsers(command.parser(), words)
        actions = {word: action for made in known for word, action in made._option_string_actions.items()}
        for word, after in zip(words, [*words, ""][1:], strict=True):
            option, _, value = word.partition("=")
            if OPTION.match(option) and option not in actions:
                yield f"{name} has no {option}"
            elif OPTION.match(option):
                given = after if actions[option].nargs is None else value
                yield from (f"{name} {option}: {fault}" for fault in value_fault(actions[option], value or given))


def value_fault(action: argparse.Action, value: str) -> Iterator[str]:
    if PLACEHOLDER.fullmatch(value) or (action.nargs is not None and not value):
        return
    if action.choices is not None and value not in action.choices:
        yield f"{value!r} is none of {', '.join(action.choices)}"
    if callable(action.type):
        try:
            action.type(value)
        except (ValueError, argparse.ArgumentTypeError) as error:
            yield str(error)


def test_the_calls_of_pages_are_found() -> None:
    assert sum(1 for path in PAGES for _ in calls(page(path))) > 200


@pytest.mark.parametrize("path", PAGES)
def test_a_command_that_a_page_calls_takes_the_options_that_it_gives(path: str) -> None:
    assert [(called, fault) for called in calls(page(path)) for fault in faults(called)] == []


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("`lode inventory -o yaml`", "inventory -o: 'yaml' is none of table, json"),
        ("`lode top cards --prices x.yaml`", "top has no --prices"),
        ("`kubectl lode drain n/gpu-0 --timeout=soon`", "drain --timeout: "),
        ("```\nlode release UID \\\n    --rot /host\n```\n", "release has no --rot"),
        ("`lode explains pod/p`", "no command explains"),
    ],
)
def test_a_wrong_call_is_told(call: str, fault: str) -> None:
    (told,) = [told for called in calls(call) for told in faults(called)]
    assert told.startswith(fault)


@pytest.mark.parametrize("path", PAGES)
def test_an_option_that_a_page_names_alone_is_one_of_ours_or_of_a_known_program(path: str) -> None:
    ours = {word for name in COMMANDS for word in options_of(name)}
    named = {match[0] for span in code_of(page(path)) if span.startswith("--") and (match := OPTION.match(span))}
    unknown = sorted(named - ours - OF_OTHERS)
    assert not unknown, f"{path}: {unknown} are no options of lode; correct them, or add those of others to OF_OTHERS"


def options_of(name: str) -> set[str]:
    command = COMMANDS[name]
    if command.parser is None:
        return set(options_in_help(name))
    return {word for made in parsers(command.parser(), ()) for word in made._option_string_actions}
