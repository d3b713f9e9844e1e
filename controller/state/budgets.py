"""PodDisruptionBudgets: which of them select a pod, and how many disruptions each allows now. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.state.changes import Changes
from driver.kube.api import Object
from driver.label_selectors import LabelSelector, label_selector_from


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget.

    Attributes:
        key: ``namespace/name``.
        selector: selects pods of its namespace; None selects none.
        allowed: number of disruptions that it allows now.
        lets_unhealthy_go: whether pods that are not ready go without using it up: always, or while enough others are.
    """

    key: str
    selector: LabelSelector | None
    allowed: int
    lets_unhealthy_go: bool = False


def budget_from(obj: Object) -> Budget:
    """Return the value of a PodDisruptionBudget. One whose newest spec has no status yet allows nothing.

    Raises:
        KeyError, TypeError, ValueError: the object cannot be decoded.
    """
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    is_current = int(status.get("observedGeneration") or 0) >= int(metadata.get("generation") or 0)
    allowed = int(status.get("disruptionsAllowed") or 0) if is_current else 0
    key = f"{metadata['namespace']}/{metadata['name']}"
    healthy, desired = int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)
    unhealthy = spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0
    return Budget(key, label_selector_from(spec.get("selector")), max(0, allowed), unhealthy)


class Budgets:
    """All PodDisruptionBudgets.

    Attributes:
        readable: whether they are known: otherwise nobody can tell which pods may go.
        changes: number of changes so far.
        selections: number of those that may have changed which budgets count for a pod.
    """

    def __init__(self) -> None:
        self.readable = False
        self.changes = self.selections = 0
        self._budgets: dict[str, dict[str, Budget]] = {}

    def upsert(self, budget: Budget) -> Budget | None:
        """Add or replace a budget; return it as it was before, None if it was not known."""
        namespace = self._budgets.setdefault(budget.key.partition("/")[0], {})
        before = namespace.get(budget.key)
        namespace[budget.key] = budget
        self.changes += before != budget
        self.selections += before is None or _selection(before) != _selection(budget)
        return before

    def remove(self, key: str) -> bool:
        """Remove a budget; return whether it was known."""
        name = key.partition("/")[0]
        namespace = self._budgets.get(name, {})
        known = namespace.pop(key, None) is not None
        self.changes += known
        self.selections += known
        if not namespace:
            self._budgets.pop(name, None)
        return known

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys of the budgets that select a pod with these labels."""
        found = self._budgets.get(namespace, {}).values()
        return tuple(one.key for one in found if one.selector is not None and one.selector.selects(labels))

    def lets_unhealthy_go(self, key: str) -> bool:
        """Return whether pods that are not ready go without using up this budget."""
        return self._budgets[key.partition("/")[0]][key].lets_unhealthy_go

    @property
    def allowed(self) -> Mapping[str, int]:
        """The number of disruptions that each budget allows now."""
        return {one.key: one.allowed for one in self._all()}

    def _all(self) -> Iterator[Budget]:
        for namespace in self._budgets.values():
            yield from namespace.values()


def _selection(budget: Budget) -> object:
    """Return what decides for which pods the budget counts."""
    return budget.selector, budget.lets_unhealthy_go


class BudgetHandler:
    """PodDisruptionBudgets. One that allows more than before, or is gone, may let a pod be served that waits."""

    def __init__(self, budgets: Budgets):
        self._budgets = budgets

    def on_update(self, budget: Budget, changes: Changes) -> None:
        """See ``Handler``."""
        before = self._budgets.upsert(budget)
        if before is not None and (budget.allowed > before.allowed or _selection(budget) != _selection(before)):
            changes.favour("")

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        if self._budgets.remove(key):
            changes.favour("")
