"""Device selectors: CEL as Kubernetes defines it for Dynamic Resource Allocation. Pure."""

from controller.selectors.declarations import ADMISSION, SCHEDULER, Environment
from controller.selectors.errors import BudgetSpent, SelectorError, SelectorFault
from controller.selectors.selector import Selector, compile_selector
from controller.selectors.view import InvalidAttribute

__all__ = [
    "ADMISSION",
    "SCHEDULER",
    "BudgetSpent",
    "Environment",
    "InvalidAttribute",
    "Selector",
    "SelectorError",
    "SelectorFault",
    "compile_selector",
]
