"""Steps: a measure of the work of an evaluation whose time has a bound, which Kubernetes' count of the cost has not.

A **step** is at most two microseconds of one core of 2024, whatever the expression does: `CostBudget.steps` weighs
loops, text, comparisons and regular expressions alike. Ordinary work takes half of that. Selectors that people write
take 10 to 400 steps on a device. The caller limits the steps of an expression with a `CostBudget.of_steps`.
"""

from typing import Final

CHARACTER_STEPS: Final = 8
"""Steps of reading one character of an expression: parsing, checking and compiling it."""
PREPARATION_STEPS: Final = 50_000
"""The most steps of what is computed from the constants of one expression when it is compiled, for loops, for text and
for comparisons each."""
PLAIN_STEPS: Final = 12
"""Steps of one evaluation without loops: most of it makes the device a value of CEL."""
PLAIN_COST: Final = 1_000
"""The highest cost (of Kubernetes' count) of an evaluation that is not counted while it runs."""
