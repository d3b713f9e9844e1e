"""Updates the indexes when slices or taint rules change: what devices there are, and whom they are closed to. Pure.

Pods at our gate whose claims are allocated already wait for nothing but these devices, so they are looked at again.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from controller.state.changes import Changes
from controller.state.handlers import Indexes
from driver.model import Slice, TaintRule


class SliceHandler:
    """Resource slices: the devices that are published. Claims that hold some of them may hold too much now, or devices
    that are there no longer."""

    def __init__(self, indexes: Indexes):
        self._indexes = indexes
        self._pools: dict[str, tuple[str, str]] = {}
        """Driver and pool of each slice."""

    def on_update(self, part: Slice, changes: Changes) -> None:
        """See ``Handler``."""
        indexes = self._indexes
        indexes.devices.upsert_slice(part)
        self._pools[part.name] = part.driver, part.pool
        self._note_holders(indexes.claims.holding(part.driver, part.pool), changes)
        indexes.kinds.put(part)
        self._mark_nodes(indexes.slices.put(part), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        indexes = self._indexes
        indexes.devices.remove_slice(key)
        if pool := self._pools.pop(key, None):
            self._note_holders(indexes.claims.holding(*pool), changes)
        indexes.kinds.remove(key)
        self._mark_nodes(indexes.slices.remove(key), changes)

    def _note_holders(self, claims: Collection[str], changes: Changes) -> None:
        changes.claims.update(dict.fromkeys(claims))
        namespaces = dict.fromkeys(self._indexes.quotas.published(claims))
        changes.quotas.update(namespaces)
        changes.quota_uses.update(namespaces)
        _note_gated_users(self._indexes, claims, changes)

    def _mark_nodes(self, names: set[str], changes: Changes) -> None:
        for name in sorted(names):
            self._indexes.nodes.mark_changed(name)
            self._indexes.revisions.advance(name)
            changes.favour(name)


class TaintRuleHandler:
    """Device taint rules, in one version of their API. A rule that is served in two versions counts in each, so that it
    goes on counting when one of them is served no longer.
    """

    def __init__(self, indexes: Indexes, version: str):
        self._indexes = indexes
        self._version = version
        self._rules: dict[str, TaintRule] = {}

    def on_update(self, rule: TaintRule, changes: Changes) -> None:
        """See ``Handler``."""
        before, self._rules[rule.name] = self._rules.get(rule.name), rule
        self._indexes.devices.upsert_taint_rule(replace(rule, name=self._name(rule.name)))
        self._changed([rule] if before is None else [before, rule], changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        before = self._rules.pop(key, None)
        self._indexes.devices.remove_taint_rule(self._name(key))
        self._changed([] if before is None else [before], changes)

    def _changed(self, rules: Iterable[TaintRule], changes: Changes) -> None:
        claims = self._indexes.claims
        for rule in (rule for rule in rules if rule.selects):
            for driver, pool in claims.pools:
                if rule.driver in ("", driver) and rule.pool in ("", pool):
                    _note_gated_users(self._indexes, claims.holding(driver, pool), changes)
        self._indexes.nodes.mark_changed("")
        changes.favour("")

    def _name(self, rule: str) -> str:
        return f"{self._version}/{rule}"


def _note_gated_users(indexes: Indexes, claims: Iterable[str], changes: Changes) -> None:
    """Note the pods at our gate that use one of these claims: what keeps them from its devices may have changed."""
    for claim in claims:
        for pod in indexes.pods.using(claim):
            if indexes.names.gate in indexes.pods[pod].gates:
                changes.pods[pod] = None
                if gang := indexes.gangs.of(pod):
                    changes.gangs[gang] = None
