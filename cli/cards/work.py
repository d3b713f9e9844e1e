"""The work of ``lode cordon``, ``lode uncordon`` and ``lode reset``: reads, decides, writes, prints."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from cli.cards.card import CardHolder, CardTarget, PublishedCard
from cli.cards.reading import ServedRules, connected, read_holders, read_rules, read_target
from cli.cards.rules import KnownRule, is_closed, remaining_taints, to_cordon, to_uncordon
from cli.exitcodes import PLACED, WAITS
from driver.errors import OperatorFault
from driver.kube.api import Api
from driver.names import Names

_NVIDIA: Final = (
    "stop what else has the card open there: DCGM and its exporter, nvidia-persistenced, monitoring. "
    "`nvidia-smi pmon -c 1 -i {uuid}` and `fuser -v /dev/nvidia{index}` name them",
    "nvidia-smi --gpu-reset -i {uuid}",
    "if it answers that the GPU cannot be reset alone (GPUs that NVLink bridges or an older NVSwitch connect), drain "
    "all cards of the node, `kubectl lode drain {node}`, and reset them together: nvidia-smi --gpu-reset",
    "if it is refused all the same, or the card has fallen off the bus: start the machine again",
)
_HUAWEI: Final = (
    "find the NPU ID (ID) and the chip ID (CHIP) of the chip with Chip Phy-ID {index}: npu-smi info -m",
    "npu-smi set -t reset -i ID -c CHIP, and -m 1 where the driver asks for an in-band reset. Chips that are connected "
    "by HCCS can be reset only together: drain all cards of the node then, `kubectl lode drain {node}`",
    "npu-smi info -t health -i ID -c CHIP",
)
_STEPS: Final = {"nvidia": _NVIDIA, "huawei": _HUAWEI}
_OTHER: Final = ("reset the card with the tool of its vendor",)


def reset_steps(card: PublishedCard, watching: Sequence[CardHolder]) -> list[str]:
    """Return what to do, one step after the other.

    Args:
        watching: claims with admin access to the card.
    """
    steps = [f"end the pods that watch the card: {holder}" for holder in watching]
    facts = {"uuid": card.uuid or card.name, "index": card.index, "node": card.node}
    steps += [f"log in to node {card.node} as root"]
    steps += [step.format(**facts) for step in _STEPS.get(card.vendor, _OTHER)]
    return [
        *steps,
        f"when the card works again, put it back into service: kubectl lode uncordon {card.key}. One that had failed "
        "keeps the taint of its health until it has worked for a while (kubeletplugin.recoverySeconds)",
    ]


def cordon(arguments: argparse.Namespace) -> int:
    """Cordon as the command's arguments say; the exit status."""
    with connected(arguments) as (api, names):
        target = read_target(api, arguments.what, names)
        make_cordon(api, target, read_rules(api, names), names, dry_run=arguments.dry_run != "none")
        return PLACED


def make_cordon(api: Api, target: CardTarget, rules: ServedRules, names: Names, *, dry_run: bool) -> bool:
    """Cordon the target and say so; returns whether anything had to be changed."""
    changes = to_cordon(target, rules.rules, names)
    if not changes.create:
        print(f"{target} already cordoned")
        return False
    if not dry_run:
        rules.write(api, changes)
    print(f"{target} cordoned{_dry(dry_run)}{_named(target)}")
    return True


def uncordon(arguments: argparse.Namespace) -> int:
    """Uncordon as the command's arguments say; the exit status."""
    dry_run = arguments.dry_run != "none"
    with connected(arguments) as (api, names):
        target = read_target(api, arguments.what, names, may_be_gone=True)
        rules = read_rules(api, names)
        changes = to_uncordon(target, rules.rules, names)
        if not dry_run:
            rules.write(api, changes)
        print(f"{target} uncordoned{_dry(dry_run)}" if changes.delete else f"{target} was not cordoned by this command")
        removed = {one.rule.name for one in changes.delete}
        left = [one for one in rules.rules if one.rule.name not in removed]
        return WAITS if _print_remaining(target.cards, left, names) else PLACED


def _print_remaining(cards: Sequence[PublishedCard], left: Sequence[KnownRule], names: Names) -> bool:
    """Print what still keeps claims from the cards; returns whether anything does."""
    ours = {one.rule.name: one for one in left if one.ours}
    lines: dict[str, list[str]] = {}
    for card in cards:
        for taint, source in remaining_taints(card, left, names):
            text = f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}, of {source}"
            if rule := ours.get(source.removeprefix("DeviceTaintRule ")):
                text = f"cordoned: kubectl lode uncordon {card.key if rule.rule.device else card.node}"
            if card.name not in lines.setdefault(text, []):
                lines[text].append(card.name)
    for text, names_of_cards in lines.items():
        print(f"  still out of service: {', '.join(names_of_cards)}: {text}")
    return bool(lines)


def reset(arguments: argparse.Namespace) -> int:
    """Print how to reset the card that the command's arguments name; the exit status."""
    with connected(arguments) as (api, names):
        target = read_target(api, arguments.what, names)
        card = target.card
        if card is None:
            some = ", ".join(card.key for card in target.cards)
            raise OperatorFault(f"{arguments.what!r} names no single card; write one of {some}")
        found = read_holders(api, target, names)
        holding = [holder for holder in found if not holder.admin_access]
        closed = is_closed(card, read_rules(api, names).rules, names)
        if holding or not closed:
            reasons = [f"  held by {holder}\n" for holder in holding]
            reasons += [] if closed else ["  a new claim could get it: it is not cordoned\n"]
            sys.stderr.write(f"lode reset: {target} must not be reset now; kubectl lode drain {card.key}\n")
            sys.stderr.writelines(reasons)
            return WAITS
        print(f"To reset {target} {card}:")
        watching = [holder for holder in found if holder.admin_access]
        for number, step in enumerate(reset_steps(card, watching), 1):
            print(f"{number}. {step}")
        return PLACED


def _dry(dry_run: bool) -> str:
    return " (dry run)" if dry_run else ""


def _named(target: CardTarget) -> str:
    """Return which devices are meant, so that the caller sees what a short name stood for."""
    if target.card:
        return f": {target.card}"
    return f": {', '.join(card.name for card in target.cards)}, and what the node publishes later"
