"""The limits of Kubernetes' parser on nesting."""

import pytest

from driver.cel import SelectorError
from driver.cel.language.parser import parse

LIMITS = (
    ("({})", "true", 249),
    ("{}+1", "1", 250),
    ("{} == true", "true", 250),
    ("[{}]", "1", 249),
    ("{}.reverse()", "[1]", 250),
    ("(1+{})", "1", 124),
)
"""Of each way to nest: how often Kubernetes' parser lets it, one inside the other."""


@pytest.mark.parametrize(("around", "start", "levels"), LIMITS)
def test_nesting_ends_where_that_of_kubernetes_ends(around: str, start: str, levels: int) -> None:
    expression = start
    for _ in range(levels):
        expression = around.format(expression)
    parse(expression)
    with pytest.raises(SelectorError, match=r"nested too deeply|too many nested"):
        parse(around.format(expression))
