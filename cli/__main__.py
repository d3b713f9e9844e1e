"""The ``lode`` command. Each subcommand is a separate program that is imported only when it is called."""

import argparse
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Sequence

PROGRAMS = {
    "controller": ("controller.__main__", "decide which devices claims get (runs in the cluster)"),
    "kubeletplugin": ("kubeletplugin.__main__", "publish and prepare the devices of one node (runs on every node)"),
    "doctor": ("cli.doctor", "check whether a cluster or a node has what Lode needs, with the remedy for each failure"),
    "inventory": ("cli.inventory", "print which cards this node has and what it offers of them, or record a profile"),
    "release": ("kubeletplugin.release", "give up a claim on this node that the kubelet has forgotten"),
    "simulate": ("cli.simulate", "print what would be allocated where, or why not, from files or a cluster"),
    "explain": ("cli.explain", "say what a pod or claim in the cluster holds, or why it waits"),
    "convert": ("cli.convert", "turn manifests for device plugins, HAMi or Volcano into manifests with claims"),
    "classes": ("cli.classes", "print device classes for the resources of vendors' device plugins"),
    "top": ("cli.top", "show what is used of the cards: which card each claim has, and how much of it"),
    "ui": ("cli.ui", "serve a page of the fleet on this machine, with your own rights"),
    "advise": ("cli.advise", "say which pods would have to move so that others can run, and which cards are idle"),
    "cordon": ("cli.cards.commands:cordon", "take a card, or all cards of a node, out of service for new claims"),
    "uncordon": ("cli.cards.commands:uncordon", "undo cordon or drain"),
    "drain": ("cli.cards.commands:drain", "cordon a card and evict the pods whose claims hold it"),
    "reset": ("cli.cards.commands:reset", "say how to reset a card by hand, unless somebody holds it"),
    "handover": ("cli.cards.commands:handover", "take a node from a device plugin while its pods run on, and back"),
    "uninstall": ("cli.uninstall", "take Lode out of a cluster: gates, programs, slices and policies, in this order"),
    "completion": ("cli.completion", "print a script by which bash, zsh or fish completes this command"),
    "demo": ("cli.demo", "run the whole system over an API in memory and show what happens"),
}
"""Subcommand to the ``module`` whose ``main(argv) -> int`` it runs, or ``module:function``, and the help for it."""
_LEFT_OUT_OF_IMAGE = {"demo": "simulation"}
"""Subcommand to a package that it needs and that the cluster image leaves out."""
_BEFORE_THE_VERB = (("-n", "--namespace"), ("--context",), ("--kubeconfig",))
"""Options that users of kubectl write before the subcommand; it gets them as if they were written after it."""
_NOT_INSTALLED = 2
_PIPE_CLOSED = 141
"""Exit status of a program that SIGPIPE ended, as shells report it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand with the rest of the command line; returns its exit status."""
    parser = argparse.ArgumentParser("lode", description="GPUs and NPUs in Kubernetes as ResourceClaims.")
    for option in _BEFORE_THE_VERB:
        parser.add_argument(*option, default=None, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, text) in PROGRAMS.items():
        commands.add_parser(name, help=text, add_help=False)
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
        return _NOT_INSTALLED
    module, _, function = PROGRAMS[chosen.command][0].partition(":")
    try:
        status: int = getattr(importlib.import_module(module), function or "main")(rest)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has ended, as head does. What is still buffered must not cause an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return status


if __name__ == "__main__":
    sys.exit(main())
