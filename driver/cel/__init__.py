"""Device selectors: CEL expressions over one device, with the results and the costs of kube-scheduler. Pure.

From the text of an expression to an answer::

    text --language.tokens--> tokens --language.parser--> syntax tree (macros expanded)
      --language.checker--> a static type for each node, the overloads each call may run
      --constant_folding--> the value of each node that does not depend on the device; bad constants are refused
      --evaluator.compiler--> one Python closure per node            = `Selector`, made by `compile_selector`
      --`Selector.evaluate(view(device, driver))`--> True, False or `SelectorFault`

* **Refusal or fault.** What can be seen in the text is a `SelectorError`, before any device is looked at: the author
  of the claim or device class must change the expression. What fails on one device is a `SelectorFault`, a third
  outcome beside match and mismatch.
* **Environments.** `SCHEDULER` is the language of stored expressions, which allocation uses. `ADMISSION` is that of
  new expressions, which the API server checks. They differ in the types of attributes and in the newest functions; see
  `language.environment`. `estimation.check_admission` checks as the API server does, with its estimate of the cost.
* **Versions** (`releases`). Kubernetes 1.37 and 1.38 are tables of what they do differently. By default the stricter
  rules of both hold (`BOTH`), so that whatever is selected is selected by each. `scheduler` and `admission` make the
  environments of one version.
* **Values** (`values`) are Python's own where CEL's behave alike, and classes where they do not. **Functions**
  (`library`) are tables from the run-time types of the arguments to an implementation.
* **Cost** (`cost`). Kubernetes counts what an evaluation costs and stops it at 1,000,000. A `CostBudget` does the same,
  and also limits work that Kubernetes does not count. Counting takes about half of the time of an evaluation. If the
  text shows that the cost is small (`cost.metering`), the compiler leaves it out. A caller can set a far lower limit,
  in steps of bounded time (`CostBudget.of_steps`, `cost.steps`).
* **Paths** (`paths`). `Selector.paths` names the attributes and capacities that an expression reads. Devices with equal
  values there (`value_at`) get the same outcome, so that a fleet of 80,000 devices needs a handful of evaluations.
* **Drivers** (`partial`). Whose devices an expression can match follows from its text: `can_select` evaluates it with
  nothing known about the device but its driver.
* **Recursion.** CEL allows expressions that are nested deeper than Python's stack. Everything that walks a syntax tree
  is a generator run by `language.trampoline`, or uses a list of nodes.

The recorded answers of Kubernetes' own evaluator in ``tests/data/conformance/cel`` decide what is right. Names of
overloads and run-time errors are those of cel-go and of Kubernetes' CEL libraries. README.md in this folder says what
is supported, how to use it alone, and how it is tested.

estimation         the check of a new expression, with its estimated cost
| partial          whose devices an expression can match, from its text alone
selector           a compiled selector, from its text
constant_folding   the values of constant nodes; bad constants are refused
| evaluator        syntax nodes as Python closures
library            the functions that expressions may call
cost               what an evaluation costs
| paths            the parts of a device that an expression reads
device             the variable ``device``
| language         text to a checked syntax tree
values             the values that expressions compute with
errors             faults of an expression, and of its evaluation on one device
| releases         what versions of Kubernetes do differently
"""

from driver.cel.cost.budget import CostBudget
from driver.cel.device import view
from driver.cel.errors import BudgetExceeded, SelectorError, SelectorFault
from driver.cel.language.environment import ADMISSION, SCHEDULER, Environment, admission, scheduler
from driver.cel.language.suggest import suggest
from driver.cel.partial import can_select
from driver.cel.paths import DevicePath, value_at
from driver.cel.releases import BOTH, RELEASES, V1_37, V1_38, KubernetesRelease
from driver.cel.selector import CheckedExpression, Selector, check_selector, compile_checked, compile_selector
from driver.cel.values.runtime import DeviceView

__all__ = [
    "ADMISSION",
    "BOTH",
    "RELEASES",
    "SCHEDULER",
    "V1_37",
    "V1_38",
    "BudgetExceeded",
    "CheckedExpression",
    "CostBudget",
    "DevicePath",
    "DeviceView",
    "Environment",
    "KubernetesRelease",
    "Selector",
    "SelectorError",
    "SelectorFault",
    "admission",
    "can_select",
    "check_selector",
    "compile_checked",
    "compile_selector",
    "scheduler",
    "suggest",
    "value_at",
    "view",
]
