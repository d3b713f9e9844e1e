"""``lode cordon``, ``uncordon``, ``drain``, ``reset`` and ``handover``: their options."""

import argparse
import re
from collections.abc import Sequence
from typing import Final

from cli.options import add_driver, cluster_options

_CARD: Final = "NODE[/CARD]"
_HOW_TO_NAME: Final = """\
CARD is the name of one of its devices (gpu-3), its index (3), or its uuid or the beginning of that. NODE alone stands
for all cards of the node."""
_CORDON: Final = f"""\
Take a card, or all cards of a node, out of service: no claim gets it any more, neither whole nor a share or partition.
Claims that have it keep it. The command makes DeviceTaintRules with the effect NoSchedule; again, it changes nothing.
{_HOW_TO_NAME}"""
_UNCORDON: Final = f"""\
Undo `lode cordon` or `lode drain` of the same NODE[/CARD]. Only rules that these have made are removed; what else keeps
claims from the card, such as a rule of somebody else or its health, is printed and left alone.
{_HOW_TO_NAME}"""
_DRAIN: Final = f"""\
Cordon a card, or all cards of a node, and evict the pods whose claims hold it, and no other pods of the node. A
PodDisruptionBudget is respected: the eviction is tried again until it is allowed. It waits until no claim holds the
card, for at most an hour unless --timeout says otherwise, and says then what it waits for. Interrupted, call it again.
Claims with admin access, as monitoring has them, hold nothing, so their pods stay.
{_HOW_TO_NAME}"""
_RESET: Final = """\
Print what remains to be done by hand to reset a card. Nothing is changed. Refused while a claim holds the card, or
while a new claim could get it.
CARD is the name of one of its devices (gpu-3), its index (3), or its uuid or the beginning of that."""
_HANDOVER: Final = """\
Take a node from the device plugin that hands out its cards, while the pods that have cards run on. A label makes the
device plugin's DaemonSet leave the node; cards that none of its pods has are open to claims as soon as the kubelet has
forgotten the device plugin, the others when these pods end. With --back, the device plugin gets the node again, once no
claim holds a card. Interrupted, call it again."""
_DRAIN_SECONDS: Final = 3600.0
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


def cordon(argv: Sequence[str]) -> int:
    """Cordon; the exit status, as the command's help says."""
    arguments = cordon_parser().parse_args(argv)
    # Imported only here, and below, so that --help and wrong options are answered at once.
    from cli.cards import work

    return work.cordon(arguments)


def uncordon(argv: Sequence[str]) -> int:
    """Uncordon; the exit status, as the command's help says."""
    arguments = uncordon_parser().parse_args(argv)
    from cli.cards import work

    return work.uncordon(arguments)


def drain(argv: Sequence[str]) -> int:
    """Drain; the exit status, as the command's help says."""
    arguments = drain_parser().parse_args(argv)
    from cli.cards import draining

    return draining.run(arguments)


def reset(argv: Sequence[str]) -> int:
    """Print how to reset a card; the exit status, as the command's help says."""
    arguments = reset_parser().parse_args(argv)
    from cli.cards import work

    return work.reset(arguments)


def handover(argv: Sequence[str]) -> int:
    """Hand a node over; the exit status, as the command's help says."""
    arguments = handover_parser().parse_args(argv)
    from cli.cards import handover as work

    return work.run(arguments)


def cordon_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of ``cordon``."""
    epilog = "exit status: 0 cordoned, 2 it failed\nexample: kubectl lode cordon node-1/gpu-3"
    parser = _parser("cordon", _CORDON, epilog)
    _add_dry_run(parser)
    return parser


def uncordon_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of ``uncordon``."""
    epilog = """\
exit status: 0 claims can get it again, 1 something else still keeps claims from it, 2 it failed
example: kubectl lode uncordon node-1/gpu-3"""
    parser = _parser("uncordon", _UNCORDON, epilog)
    _add_dry_run(parser)
    return parser


def drain_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of ``drain``."""
    epilog = """\
exit status: 0 no claim holds it, 1 pods may not be evicted or were not evicted in time, 2 it failed
example: kubectl lode drain node-1/gpu-3 --timeout 15m"""
    parser = _parser("drain", _DRAIN, epilog)
    _add_dry_run(parser)
    parser.add_argument(
        "--force", action="store_true", help="also evict pods without a controller, which nobody makes again"
    )
    parser.add_argument(
        "--delete-emptydir-data",
        action="store_true",
        help="also evict pods with an emptyDir on disk, whose content is lost; one in memory never counts",
    )
    parser.add_argument(
        "--grace-period",
        type=int,
        default=-1,
        metavar="SECONDS",
        help="that pods get to end; default: what each says itself",
    )
    parser.add_argument(
        "--timeout",
        type=seconds_of,
        default=_DRAIN_SECONDS,
        metavar="TIME",
        help="when it gives up and says what it waits for, such as 90s or 15m; default: 1h; 0: never",
    )
    parser.add_argument(
        "--wait",
        type=_flag,
        nargs="?",
        const=True,
        default=True,
        metavar="true|false",
        help="wait until no claim holds the card, not only until every eviction is accepted; default: true",
    )
    return parser


def reset_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of ``reset``."""
    epilog = """\
exit status: 0 it can be reset, 1 not now, 2 it failed
example: kubectl lode reset node-1/gpu-3"""
    return _parser("reset", _RESET, epilog, what="NODE/CARD")


def handover_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of ``handover``."""
    epilog = """\
exit status: 0 done, 1 not in time, or claims hold cards, 2 it failed
example: kubectl lode handover node-1"""
    parser = _parser("handover", _HANDOVER, epilog, what="NODE")
    _add_dry_run(parser)
    parser.add_argument("--back", action="store_true", help="give the node back to its device plugin")
    parser.add_argument(
        "--daemonset",
        default="",
        metavar="NAMESPACE/NAME",
        help="the device plugin, if several DaemonSets register devices",
    )
    parser.add_argument(
        "--timeout", type=seconds_of, default=0.0, metavar="TIME", help="such as 90s or 15m; default: 0, without an end"
    )
    return parser


def _parser(command: str, description: str, epilog: str, what: str = _CARD) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        f"lode {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[cluster_options()],
    )
    parser.add_argument("what", metavar=what)
    add_driver(parser)
    return parser


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run",
        nargs="?",
        const="client",
        default="none",
        choices=("none", "client"),
        help="print what would be done, and do nothing",
    )


def seconds_of(text: str) -> float:
    """Return the seconds of a duration as kubectl takes it: ``1h30m``, ``90s``, or ``0``."""
    if text == "0":
        return 0.0
    parts = _DURATION.fullmatch(text)
    if not parts or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write for example 90s, 15m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in parts.groups())
    return hours * 3600 + minutes * 60 + seconds


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text == "true"
