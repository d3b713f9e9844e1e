"""The work of ``lode cordon``, ``lode uncordon`` and ``lode reset``: reads, decides, writes, prints."""

import argparse
import sys
from collections.abc import Sequence

from cli.cards.card import CardTarget, PublishedCard
from cli.cards.manual import reset_steps
from cli.cards.reading import ServedRules, connected, read_holders, read_rules, read_target
from cli.cards.rules import KnownRule, is_closed, remaining_taints, to_cordon, to_uncordon
from cli.exitcodes import PLACED, WAITS
from driver.errors import OperatorFault
from driver.kube.api import Api
from driver.names import Names


def cordon(arguments: argparse.Namespace) -> int:
    """Cordon as the command's arguments say; the exit status."""

    def work(api: Api, names: Names) -> int:
        target = read_target(api, arguments.what, names)
        make_cordon(api, target, read_rules(api, names), names, dry_run=arguments.dry_run != "none")
        return PLACED

    return connected("cordon", arguments, work)


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

    def work(api: Api, names: Names) -> int:
        target = read_target(api, arguments.what, names, may_be_gone=True)
        rules = read_rules(api, names)
        changes = to_uncordon(target, rules.rules, names)
        if not dry_run:
            rules.write(api, changes)
        print(f"{target} uncordoned{_dry(dry_run)}" if changes.delete else f"{target} was not cordoned by this command")
        removed = {one.rule.name for one in changes.delete}
        left = [one for one in rules.rules if one.rule.name not in removed]
        return WAITS if _print_remaining(target.cards, left, names) else PLACED

    return connected("uncordon", arguments, work)


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

    def work(api: Api, names: Names) -> int:
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

    return connected("reset", arguments, work)


def _dry(dry_run: bool) -> str:
    return " (dry run)" if dry_run else ""


def _named(target: CardTarget) -> str:
    """Return which devices are meant, so that the caller sees what a short name stood for."""
    if target.card:
        return f": {target.card}"
    return f": {', '.join(card.name for card in target.cards)}, and what the node publishes later"
