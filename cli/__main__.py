"""The ``lode`` command: reads the command line, calls the subcommand, and prints what is wrong."""

import argparse
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Sequence

from cli.commands import COMMANDS
from cli.exitcodes import FAILED
from driver.errors import LodeError

_LEFT_OUT_OF_IMAGE = {"demo": "simulation"}
"""Subcommand to a package that it needs and that the cluster image leaves out."""
_BEFORE_THE_VERB = (("-n", "--namespace"), ("--context",), ("--kubeconfig",))
"""Options that users of kubectl write before the subcommand; it gets them as if they were written after it."""
_PIPE_CLOSED = 141
"""Exit status of a program that SIGPIPE ended, as shells report it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand with the rest of the command line; returns its exit status."""
    parser = argparse.ArgumentParser("lode", description="GPUs and NPUs in Kubernetes as ResourceClaims.")
    for option in _BEFORE_THE_VERB:
        parser.add_argument(*option, default=None, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.does, add_help=False)
    commands.add_parser("version", help="print the version")
    chosen, rest = parser.parse_known_args(argv)
    given = ((option[-1], getattr(chosen, option[-1].lstrip("-"))) for option in _BEFORE_THE_VERB)
    rest = [*(word for name, value in given if value is not None for word in (name, value)), *rest]
    if chosen.command == "version":
        if rest:
            parser.error(f"version takes no arguments, found {' '.join(rest)}")
        print(importlib.metadata.version("lode-dra"))
        return 0
    needed = _LEFT_OUT_OF_IMAGE.get(chosen.command)
    if needed and importlib.util.find_spec(needed) is None:
        sys.stderr.write(
            f"lode {chosen.command}: the package {needed} is not installed, the cluster image leaves it out; run "
            f"`lode {chosen.command}` from a checkout (make demo) or install the wheel of lode-dra on this machine\n"
        )
        return FAILED
    try:
        status = _run(chosen.command, rest)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has ended, as head does. What is still buffered must not cause an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return status


def _run(name: str, argv: Sequence[str]) -> int:
    """Run a subcommand; the exit status. Only what a user can mend is caught."""
    command = COMMANDS[name]
    module, _, function = command.work.partition(":")
    if command.parser is None:
        return int(importlib.import_module(module).main(argv))
    arguments = command.parser().parse_args(argv)
    try:
        # Imported only here, so that --help and wrong options are answered at once.
        return int(getattr(importlib.import_module(module), function or "run")(arguments))
    except BrokenPipeError:
        raise
    except (LodeError, OSError) as error:
        sys.stderr.write(f"lode {name}: {error}\n")
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
