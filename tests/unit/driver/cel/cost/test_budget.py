"""No expression burns CPU or memory: work is bounded before it is done, and nothing absorbs the end of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.cel import ADMISSION, BudgetExceeded, SelectorError, compile_selector, constant_folding, view
from driver.cel.cost.budget import COST_LIMIT, GROWTH_LIMIT, STEP_LIMIT, UNMETERED, CostBudget
from driver.cel.cost.metering import cost_bound
from driver.cel.cost.steps import CHARACTER_STEPS, PREPARATION_STEPS
from driver.cel.errors import Cancelled, SelectorFault
from driver.cel.evaluator.compiler import CompiledExpression
from driver.cel.language.checker import check
from driver.cel.language.environment import SCHEDULER
from driver.cel.language.parser import parse
from driver.cel.language.syntax import Call, Literal, MapOf
from driver.model import Capacity, Device, Version
from driver.quantity import Quantity

DRIVER = "lode.dev"
A, C = 'device.attributes["lode.dev"]', 'device.capacity["lode.dev"]'
CARD = Device(
    "d",
    {
        "lode.dev/type": "H100",
        "lode.dev/index": 3,
        "lode.dev/version": Version("1.2.3"),
        "lode.dev/links": tuple(f"link-{i:02}" for i in range(48)),
    },
    {"memory": Capacity(Quantity.parse("80Gi"))},
)
TEN = "[1,2,3,4,5,6,7,8,9,10]"


def nested(name: str, depth: int, inner: str) -> str:
    """``cel.bind(a0, [inner x 10], cel.bind(a1, [a0 x 10], ... name))``: a value with 10**depth elements."""
    text = ""
    for level in range(depth):
        held = inner if level == 0 else f"a{level - 1}"
        text += f"cel.bind(a{level}, [{', '.join([held] * 10)}], "
    return f"{text}{name.replace('?', f'a{depth - 1}')}{')' * depth}"


def doubled(first: object) -> str:
    """``first`` joined with itself, ten times in a row."""
    text = "".join(f"cel.bind(a{i}, {f'a{i - 1} + a{i - 1}' if i else repr(first)}, " for i in range(10))
    return f"{text}a9.size() > 0{')' * 10}"


SPENT = {
    "loops in loops": f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, true))))",
    "a long range": "lists.range(2000).all(x, true)",
    "a long range, kept": "lists.range(600).map(x, x).size() > 0",
    "joining": 'lists.range(120).map(x, "aaaaaaaaaa").join().size() > 0',
    "replacing": 'cel.bind(a, "0123456789".replace("", "0123456789"), a.replace("", a).size() > 0)',
    "doubling": doubled("x" * 64),
    "doubling lists": doubled([1] * 64),
    "formatting": 'cel.bind(a, lists.range(20), "%s".format([a.map(x, a)]).size() > 0)',
    "quoting": "strings.quote(" * 12 + "'x'" + ")" * 12 + ".size() > 0",
    "comparing what is shared": nested("? == ?", 4, "1"),
    "looking in what is shared": nested("? in [?, ?]", 4, "1"),
    "sets of what is shared": nested("sets.contains(?, ?)", 4, "1"),
    "distinct of what is shared": nested("?.distinct().size() > 0", 4, "1"),
    "walking what is shared": nested("?.includes(1)", 4, "1"),
    "flattening what is shared": nested("?.flatten(4).size() > 0", 4, "1"),
    "ordering": "lists.range(90).sort().size() > 0",
    "ordering by": "lists.range(90).sortBy(x, -x).size() > 0",
    "duplicates": "lists.range(90).distinct().size() > 0",
    "sets": "sets.intersects(lists.range(90), lists.range(90).map(x, -x - 1))",
    "a pattern on a long text": 'cel.bind(a, "0123456789".replace("", "01234567"), '
    'a.replace("", "01234567").matches("([ab].*){50}c"))',
    "many patterns": r'lists.range(90).exists(x, "a".matches("\\pL" + string(x)))',
    "optionals, twice each": "optional.of(1)" + "".join(f".optMap(a{i}, a{i})" for i in range(13)) + ".hasValue()",
}


@pytest.mark.parametrize("expression", SPENT.values(), ids=SPENT.keys())
def test_what_is_too_much_is_stopped_and_nothing_absorbs_that(expression: str) -> None:
    budget = CostBudget(5_000, growth=1_000, visits=1_000)
    with pytest.raises(BudgetExceeded):
        compile_selector(f"({expression}) || true").evaluate(view(CARD, DRIVER), budget)


def test_a_device_is_looked_at_within_kubernetes_cost_limit_and_ours() -> None:
    with pytest.raises(BudgetExceeded):
        compile_selector("lists.range(1000000).all(x, true) || true").matches(CARD, DRIVER)
    CostBudget().grow(GROWTH_LIMIT)
    CostBudget().spend(STEP_LIMIT)
    with pytest.raises(BudgetExceeded, match="built too many"):
        CostBudget().grow(GROWTH_LIMIT + 1)
    with pytest.raises(BudgetExceeded, match="visited too many"):
        CostBudget().spend(STEP_LIMIT + 1)


LONG = f'("a" + {A}.type)' + 5 * '.replace("a", "aaaaaaaaaa")'
SIXTY = f"{[0] * 60}"
STEPS = 50_000
SLOW = {
    "many matches": f'{LONG}.findAll("a").size() > 0',
    "a large pattern on a long text": f'{LONG}.matches("([ab].*){{500}}c")',
    "a pattern of many characters": f'lists.range(60).exists(i, {A}.type.matches("[\\\\pL]{{9}}" + string(i)))',
    "unknown time zones": f'{SIXTY}.all(i, {SIXTY}.all(j, timestamp(0).getHours("Zz/" + string(i)) > 0 || true))',
    "long errors": f'cel.bind(t, {LONG}, {SIXTY}.all(i, {SIXTY}.all(j, duration(t) > duration("1s") || true)))',
    "long URLs": f"cel.bind(t, {LONG}, {SIXTY}.all(i, isURL(t) || true))",
    "networks": f'{SIXTY}.all(i, {SIXTY}.all(j, cidr("10.0.0.0/8").containsIP("10.1.2." + string(j))))',
    "long lists compared": f'cel.bind(l, {LONG}.split(""), {SIXTY}.all(i, l == l))',
}


@pytest.mark.parametrize("expression", SLOW.values(), ids=SLOW.keys())
def test_what_is_cheap_for_kubernetes_and_takes_long_uses_up_the_steps(expression: str) -> None:
    budget = CostBudget.of_steps(STEPS)
    with pytest.raises(BudgetExceeded):
        compile_selector(expression).evaluate(view(CARD, DRIVER), budget)
    assert budget.steps >= STEPS


def test_compiling_an_expression_of_costly_constants_is_bounded() -> None:
    costly = " && ".join(f"lists.range({90_000 + i}).size() > 0" for i in range(200))
    assert compile_selector(costly).compile_steps <= len(costly) * CHARACTER_STEPS + 4 * PREPARATION_STEPS
    with pytest.raises(SelectorError, match="more different or larger regular expressions"):
        compile_selector(" || ".join(f'device.driver.matches("[\\\\pL]{{{i}}}")' for i in range(3, 20)))


@pytest.mark.parametrize("key", [f"bytes({A}.type)", f"{A}.version", "format.uuid()"])
def test_a_key_that_is_no_simple_value_ends_the_evaluation(key: str) -> None:
    with pytest.raises(Cancelled):
        compile_selector(f"{{{key}: 1}}.size() == 1 || true").matches(CARD, DRIVER)


def test_bytes_are_no_key_of_a_map() -> None:
    written = '{"x": 1} == {}'
    node = parse(written)
    assert isinstance(node, Call)
    one, other = node.args
    assert isinstance(one, MapOf)
    ((key, value, optional),) = one.entries
    assert isinstance(key, Literal)
    changed = replace(node, args=(replace(one, entries=((replace(key, value=b"x"), value, optional),)), other))
    with pytest.raises(SelectorError, match="bytes cannot be a key"):
        constant_folding.check(written, changed, check(written, changed, SCHEDULER))


@pytest.mark.parametrize(
    "failing",
    ["[1/0].distinct()", "[1/0].sort()", "[[1]].flatten(1/0)", "[1].sortBy(x, 1/0)", "[1/0].sortBy(x, x)"],
)
def test_an_argument_that_fails_while_its_cost_is_counted_ends_the_evaluation(failing: str) -> None:
    with pytest.raises(Cancelled):
        compile_selector(f"{failing} == [] || true").matches(CARD, DRIVER)


FINE = (
    f'{A}.links.exists(link, link == "link-47")',
    f"{A}.links.all(a, {A}.links.exists(b, b == a))",
    "lists.range(50000).all(x, x >= 0)",
    'quantity("1e4100").isGreaterThan(quantity("1"))',
    "lists.range(400).sort().distinct().size() == 400",
    nested("?.size() == 10", 4, "1"),
)


@pytest.mark.parametrize("expression", FINE)
def test_what_kubernetes_lets_pass_passes(expression: str) -> None:
    assert compile_selector(expression).matches(CARD, DRIVER)


def test_admission_takes_10_kib_and_the_parser_100000_characters() -> None:
    def text(size: int) -> str:
        return f"true || {'x' * (size - 16)!r} == ''"

    for size, environment in ((10 * 1024, ADMISSION), (100_000, SCHEDULER)):
        assert len(text(size)) == size
        compile_selector(text(size), environment)
        with pytest.raises(SelectorError, match=r"too long; the limit in (bytes|characters) is"):
            compile_selector(text(size + 1), environment)


def _texts() -> st.SearchStrategy[str]:
    leaves = st.sampled_from([f"{A}.type", f'{A}["type"]', "device.driver", f"{A}.nosuch", f"{A}.index"])
    written = st.text("ab.*[]()", max_size=80).map(lambda text: f'"{text}"')
    return st.recursive(
        leaves | written,
        lambda inner: (
            st.builds("{}.{}()".format, inner, st.sampled_from(["trim", "lowerAscii", "upperAscii"]))
            | st.builds("{}.substring({})".format, inner, st.integers(0, 9))
            | st.builds("{}.find({})".format, inner, inner)
            | st.builds("({} ? {} : {})".format, st.sampled_from(["true", f"has({A}.type)"]), inner, inner)
            | st.builds("cel.bind(v, {}, v)".format, inner)
            | st.builds("optional.of({}).optMap(w, w).orValue({})".format, inner, inner)
        ),
        max_leaves=8,
    )


_ranges = st.sampled_from([f"{A}.links", A, "[1, 2, 3]", '{"a": 1}', "device.attributes", f"[{'1, ' * 300}1]"])
_methods = st.sampled_from(["contains", "startsWith", "endsWith", "matches"])
_plain = st.recursive(
    st.builds("{}.{}({})".format, _texts(), _methods, _texts())
    | st.builds("{} {} {}".format, _texts(), st.sampled_from(["==", "!=", "<", ">="]), _texts())
    | st.builds("{} in [{}]".format, _texts(), st.sampled_from(['"a", "b"', "", '"H100"']))
    | st.builds("isQuantity({})".format, _texts())
    | st.just(f'{C}.memory.compareTo(quantity("40Gi")) > 0'),
    lambda inner: (
        st.builds("({} && {})".format, inner, inner)
        | st.builds("({} || {})".format, inner, inner)
        | st.builds("!({})".format, inner)
    ),
    max_leaves=6,
)


@given(_plain)
def test_what_needs_no_metering_costs_no_more_than_its_bound_and_comes_out_the_same(expression: str) -> None:
    node = parse(expression)
    try:
        checked = check(expression, node, SCHEDULER)
        fixed = constant_folding.check(expression, node, checked)
    except SelectorError:
        return
    most = cost_bound(expression, node, checked, fixed)
    if most is None:
        return
    assert most <= COST_LIMIT
    metered = CostBudget()
    assert _outcome(CompiledExpression(node, checked, fixed, metered=True), metered) == _outcome(
        CompiledExpression(node, checked, fixed, metered=False), UNMETERED
    )
    assert metered.cost <= most


def _outcome(program: CompiledExpression, budget: CostBudget) -> object:
    try:
        return program.code([view(CARD, DRIVER), budget, *[None] * program.variables])
    except SelectorFault as fault:
        return str(fault)


def test_a_cost_at_the_limit_is_allowed_and_one_more_is_not() -> None:
    budget = CostBudget(100)
    budget.charge(100)
    with pytest.raises(BudgetExceeded):
        budget.charge(1)
