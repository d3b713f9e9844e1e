"""The check of a new CEL selector at admission: it must compile, and its estimated cost must be within the limit.

The API server estimates the most that an expression can cost on any device, and refuses expressions above the limit.
Only the API needs this estimate. Allocators count the actual cost instead, while they evaluate an expression
(`driver.cel.cost`).

estimator        the most that an expression can cost on any device
call_estimates   the most that a call can cost
sizes            the sizes that values can have
"""

from typing import Final

from driver.cel.errors import SelectorError
from driver.cel.estimation.estimator import estimate
from driver.cel.estimation.sizes import UNBOUNDED
from driver.cel.language.environment import admission
from driver.cel.releases import BOTH, KubernetesRelease
from driver.cel.selector import check_selector

__all__ = ["MAX_COST", "check_admission", "estimate"]

MAX_COST: Final = 1_000_000
"""The highest estimated cost that is accepted (resource.k8s.io CELSelectorExpressionMaxCost)."""
_WITHOUT_BOUND: Final = UNBOUNDED // 100
"""Estimates above this contain a size that has no bound: they are a fraction of UNBOUNDED."""


def check_admission(expression: str, release: KubernetesRelease = BOTH) -> None:
    """Check a new expression as the API server does, by the rules of a version of Kubernetes.

    Raises:
        SelectorError: the expression does not compile or may cost too much; its author must change it.
    """
    checked = check_selector(expression, admission(release))
    cost = estimate(checked.node, checked.types)
    if cost > MAX_COST:
        shown = "without bound" if cost >= _WITHOUT_BOUND else f"{cost}"
        message = f"the estimated cost exceeds the limit of {MAX_COST}: {shown}; use shorter lists or fewer loops"
        raise SelectorError(expression, 0, message)
