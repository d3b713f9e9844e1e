"""The DeviceTaintRules that take cards out of service. Pure.

A rule selects devices by driver, pool and device name; the API has no other selector. So a node takes one rule, which
also taints what the node publishes later, and a card one for each of its devices. The device of the whole card and the
one of its shares have a rule even while they are not published.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cli.cards.card import CardTarget, PublishedCard
from driver.errors import SENSELESS, OperatorFault
from driver.kube.api import DEVICE_TAINT_RULES, Object
from driver.model import Taint, TaintRule
from driver.names import Names
from driver.wire import taint_rule_from

_MOST_CHARACTERS: Final = 253
"""Of the name of an object."""
_WHOLE_NODE: Final = "all"
"""Stands for the device in the name of the rule of a node. No device has this name."""


@dataclass(frozen=True, slots=True)
class KnownRule:
    """A DeviceTaintRule of the cluster.

    Attributes:
        ours: whether this command made it.
    """

    rule: TaintRule
    uid: str
    ours: bool

    @property
    def closes(self) -> bool:
        """Whether devices that it selects are given to no claim that does not tolerate it."""
        return self.rule.selects and self.rule.taint.excludes

    def selects(self, pool: str, device: str, names: Names) -> bool:
        """Return whether it selects the device."""
        rule = self.rule
        wanted = ((rule.driver, names.driver), (rule.pool, pool), (rule.device, device))
        return rule.selects and all(asked in ("", actual) for asked, actual in wanted)


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """Rules to create, and rules to delete before that."""

    create: tuple[Object, ...] = ()
    delete: tuple[KnownRule, ...] = ()


def known_rules(rules: Iterable[Object], names: Names) -> list[KnownRule]:
    """Return the rules as values; those that cannot be decoded are left out."""
    found = []
    for raw in rules:
        try:
            metadata = raw["metadata"]
            labelled = (metadata.get("labels") or {}).get(_label(names)) == "true"
            ours = labelled and metadata["name"].endswith(_suffix(names))
            found.append(KnownRule(taint_rule_from(raw), metadata.get("uid") or "", ours))
        except SENSELESS:
            continue
    return found


def to_cordon(target: CardTarget, known: Sequence[KnownRule], names: Names) -> RuleChanges:
    """Return what is missing until the target is cordoned. A rule of ours that somebody has weakened is made again.

    Raises:
        OperatorFault: somebody else has made a rule with the name of one of ours.
    """
    by_name = {one.rule.name: one for one in known}
    create, delete = [], []
    for device in _devices(target):
        name, there = _name(target.node, device, names), by_name.get(_name(target.node, device, names))
        if there and not there.ours:
            raise OperatorFault(
                f"DeviceTaintRule {name}: exists, and `lode cordon` has not made it (label {_label(names)}); delete it "
                "or give it another name"
            )
        pool = names.pool(target.node)
        if there and there.closes and there.rule.device == device and there.selects(pool, device, names):
            continue
        delete += [there] if there else []
        create.append(_rule(name, target.node, device, names))
    return RuleChanges(tuple(create), tuple(delete))


def to_uncordon(target: CardTarget, known: Sequence[KnownRule], names: Names) -> RuleChanges:
    """Return what ``to_cordon`` of the same target has made: of a node its rule, and not those of its cards."""
    return RuleChanges(delete=tuple(one for one in known if one.ours and _is_for(one, target, names)))


def remaining_taints(card: PublishedCard, known: Sequence[KnownRule], names: Names) -> Iterator[tuple[Taint, str]]:
    """Yield what keeps claims from devices of the card: each taint once, and where it comes from."""
    pool = names.pool(card.node)
    seen: dict[tuple[str, str, str], tuple[Taint, str]] = {}
    for taints in card.devices.values():
        for taint in taints:
            if taint.excludes:
                seen.setdefault(("", taint.key, taint.effect), (taint, "the plugin of the node"))
    for one in known:
        if one.closes and any(one.selects(pool, device, names) for device in (card.name, *card.devices)):
            seen[one.rule.name, "", ""] = (one.rule.taint, f"DeviceTaintRule {one.rule.name}")
    yield from seen.values()


def is_closed(card: PublishedCard, known: Sequence[KnownRule], names: Names) -> bool:
    """Return whether no device of the card is given to a claim that tolerates nothing."""
    pool = names.pool(card.node)
    closing = [one for one in known if one.closes]
    return all(
        any(taint.excludes for taint in taints) or any(one.selects(pool, device, names) for one in closing)
        for device, taints in card.devices.items()
    )


def _devices(target: CardTarget) -> tuple[str, ...]:
    """Return the names of the devices that need a rule; "" stands for all of the node."""
    card = target.card
    return ("",) if card is None else tuple(dict.fromkeys((card.name, card.shared_name, *card.devices)))


def _is_for(one: KnownRule, target: CardTarget, names: Names) -> bool:
    if one.rule.pool != names.pool(target.node):
        return False
    return not one.rule.device if target.card is None else bool(one.rule.device) and target.has(one.rule.device)


def _label(names: Names) -> str:
    return names.attribute("cordon")


def _suffix(names: Names) -> str:
    return f".cordon.{names.driver}"


def _name(node: str, device: str, names: Names) -> str:
    """Return the name of the rule, which is the same each time, and another one for each device of each node."""
    first, suffix = f"{device or _WHOLE_NODE}.", _suffix(names)
    if len(first) + len(node) + len(suffix) > _MOST_CHARACTERS:
        node = hashlib.sha256(node.encode()).hexdigest()[:32]
    return f"{first}{node}{suffix}"


def _rule(name: str, node: str, device: str, names: Names) -> Object:
    selector = {"driver": names.driver, "pool": names.pool(node), **({"device": device} if device else {})}
    return {
        "apiVersion": DEVICE_TAINT_RULES.api_version,
        "kind": DEVICE_TAINT_RULES.kind,
        "metadata": {"name": name, "labels": {_label(names): "true"}},
        "spec": {
            "deviceSelector": selector,
            "taint": {"key": names.attribute("cordoned"), "effect": "NoSchedule"},
        },
    }
