"""``lode completion``: a script by which a shell completes this command; and what kubectl asks to complete its plugin.
Only home of ``shtab``.

The options of commands are their parsers, so nothing is written twice. shtab makes scripts for bash, zsh and fish from
parsers, and is kept up. For plugins, kubectl does not read such scripts: it runs ``kubectl_complete-lode`` with the
words so far.
"""

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from cli.commands import COMMANDS
from cli.exitcodes import FAILED
from cli.wanted import FORMS, WantedNames

SECONDS: Final = 3.0
"""How long whoever completes a word waits for names. What is known until then is offered."""
MOST: Final = 500
"""Names that are offered at most."""
_NO_FILES: Final = ":4"
"""Tells kubectl to offer no names of files (``ShellCompDirectiveNoFileComp`` of cobra)."""
_GOES_ON: Final = ":6"
"""The same, and that the word goes on (``ShellCompDirectiveNoSpace``)."""
_FILES: Final = ":0"
_NAMES: Final[dict[str, object]] = {
    "bash": "_lode_names",
    "zsh": "_lode_names",
    "fish": "(_lode_names)",
    "preamble": {
        "bash": """
_lode_names() {
  kubectl_complete-lode "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1 | grep -v -e '^:' -e '/$'
}""",
        "zsh": """
_lode_names() {
  local -a typed found
  typed=(${(z)LBUFFER})
  [[ $LBUFFER == *[[:space:]] ]] && typed+=("")
  found=(${(f)"$(kubectl_complete-lode "${(@)typed[2,-1]}" 2>/dev/null | cut -f1 | grep -v -e '^:' -e '/$')"})
  compadd -a found
}""",
        "fish": """
function _lode_names
  set -l typed (commandline -opc) (commandline -ct)
  kubectl_complete-lode $typed[2..-1] 2>/dev/null | cut -f1 | string match -v -r '^:|/$'
end""",
    },
}
"""How scripts complete names of objects: they ask what kubectl asks."""
_MISSING: Final = "lode completion: the package shtab is not installed; install Lode's command as README says\n"


def run(arguments: argparse.Namespace) -> int:
    """Print the script of a shell; the exit status, as the command's help says."""
    try:
        import shtab  # takes long to import
    except ImportError:
        sys.stderr.write(_MISSING)
        return FAILED
    tree = command_tree()
    for command in _commands_of(tree).values():
        _mark(command, shtab.FILE)
    print(shtab.complete(tree, arguments.shell))
    return 0


def kubectl(seconds: float = SECONDS) -> int:
    """Print what may stand in the place of the last argument, as kubectl asks a plugin; returns 0.

    Names of objects are offered that are found in this time.
    """
    *words, current = sys.argv[1:] or [""]
    found, files = candidates(words, current)
    if wanted := wanted_objects(words, current):
        found += [(name, "") for name in names_soon(wanted, seconds)]
    for word, text in found:
        print(f"{word}\t{text}" if text else word)
    goes_on = any(word.endswith("/") for word, _ in found)
    print(_FILES if files else _GOES_ON if goes_on else _NO_FILES)
    return 0


def command_tree() -> argparse.ArgumentParser:
    """Return one parser of all commands for people."""
    tree = argparse.ArgumentParser("lode")
    commands = tree.add_subparsers(metavar="COMMAND")
    for name, command in COMMANDS.items():
        if command.parser is not None:
            made = command.parser()
            text = " ".join((made.description or "").split()).partition(".")[0]
            commands.add_parser(name, help=text, parents=[made], add_help=False)
    return tree


def candidates(words: Sequence[str], current: str) -> tuple[list[tuple[str, str]], bool]:
    """Return what may come after these words, each with its help, and whether names of files may."""
    at, awaited = _place(words)
    offered = [one for one in _offers(at, awaited, current) if one[0].startswith(current)]
    return offered, awaited is not None and _takes_files(awaited)


def wanted_objects(words: Sequence[str], current: str) -> WantedNames | None:
    """Return which names of objects may come after these words; None if none may."""
    at, awaited = _place(words)
    if awaited is None and current.startswith("-"):
        return None
    actions = [awaited] if awaited is not None else [action for action in at._actions if not action.option_strings]
    forms = [form for action in actions for form in _forms(action)]
    return WantedNames(forms, current, words) if forms else None


def names_soon(wanted: WantedNames, seconds: float) -> Sequence[str]:
    """Return the names that are found in this time, sorted; () if the cluster cannot be read."""
    found: dict[str, None] = {}

    def read() -> None:
        # Whoever completes a word wants no messages, whatever goes wrong.
        with suppress(Exception):
            from cli.objectnames import names  # takes long to import

            for name in islice(names(wanted), MOST):
                found[name] = None

    # A thread that takes too long is left alone: the program ends soon.
    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    reading.join(seconds)
    return sorted([*found])


def _place(words: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.Action | None]:
    """Return the parser of what comes after these words, and the option that awaits a value."""
    at, awaited = command_tree(), None
    for word in words:
        if awaited is not None:
            awaited = None
        elif word.startswith("-"):
            option = at._option_string_actions.get(word)
            awaited = option if option is not None and option.nargs != 0 else None
        else:
            at = _commands_of(at).get(word, at)
    return at, awaited


def _forms(action: argparse.Action) -> list[str]:
    """The forms of names that an action takes, as its help writes them."""
    if isinstance(action, argparse._SubParsersAction) or action.nargs == 0:
        return []
    written = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return [form for form in written.split("|") if form in FORMS]


def _offers(at: argparse.ArgumentParser, awaited: argparse.Action | None, current: str) -> Iterator[tuple[str, str]]:
    """Yield the values of the option that awaits one, else options behind a dash, else commands and choices."""
    if awaited is not None:
        yield from ((str(value), "") for value in awaited.choices or ())
        return
    if current.startswith("-"):
        for option in at._actions:
            yield from ((word, _help(option)) for word in option.option_strings)
        return
    for action in at._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from ((choice.dest, _help(choice)) for choice in action._choices_actions)
        elif not action.option_strings:
            yield from ((str(value), "") for value in action.choices or ())


def _commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _help(action: argparse.Action) -> str:
    return "" if action.help in (None, argparse.SUPPRESS) else " ".join(str(action.help).split())


def _mark(command: argparse.ArgumentParser, files: object) -> None:
    """Have the scripts offer names of files and of objects where an option or an argument takes one."""
    for action in command._actions:
        if _takes_files(action):
            action.complete = files  # type: ignore[attr-defined]
        elif _forms(action):
            action.complete = _NAMES  # type: ignore[attr-defined]
    for below in _commands_of(command).values():
        _mark(below, files)


def _takes_files(action: argparse.Action) -> bool:
    return isinstance(action.metavar, str) and "FILE" in action.metavar
