"""Device selectors: CEL as Kubernetes defines it for Dynamic Resource Allocation. Pure."""

from controller.selectors.cost.budget import Budget
from controller.selectors.device import InvalidAttribute, view
from controller.selectors.errors import BudgetSpent, SelectorError, SelectorFault
from controller.selectors.language.environment import ADMISSION, SCHEDULER, Environment
from controller.selectors.paths import Path, value_at
from controller.selectors.selector import CheckedExpression, Selector, check_selector, compile_selector
from controller.selectors.values.types import Device

__all__ = [
    "ADMISSION",
    "SCHEDULER",
    "Budget",
    "BudgetSpent",
    "CheckedExpression",
    "Device",
    "Environment",
    "InvalidAttribute",
    "Path",
    "Selector",
    "SelectorError",
    "SelectorFault",
    "check_selector",
    "compile_selector",
    "value_at",
    "view",
]
