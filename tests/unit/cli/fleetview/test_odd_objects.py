"""Whatever stands in one object, the view has the cards of all others, and every table of it can be printed."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from cli.fleetview import ViewBuilder
from cli.top import cards, costs, nodes
from cli.top.namespaces import COLUMNS, FoundNamespaces
from cli.top.prices import PriceTable
from cli.top.question import Question
from cli.top.report import rendered
from driver.kube.api import Object
from tests.unit.cli.cluster import node, pod, slices
from tests.unit.cli.fleetview.views import NAMES, held

ODD: tuple[Any, ...] = (None, 7, -1, True, "", "x", "\x1b[2J", "x" * 5000, [], {}, [None], {"a": []}, 10**40, "1e9999")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in an object whose value can be replaced, without its name: the API server sees to that."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        found = [*value.items()]
    elif isinstance(value, list):
        found = [*enumerate(value)]
    for key, below in found:
        if path != ("metadata",) and (*path, key) != ("metadata",):
            yield (*path, key)
        yield from places(below, (*path, key))


def odd(obj: Object, rng: random.Random) -> Object:
    """The object with another value in up to three places."""
    changed: Any = copy.deepcopy(obj)
    for _ in range(rng.randrange(1, 4)):
        choices = list(places(changed))
        if not choices:
            break
        *above, last = rng.choice(choices)
        at = changed
        for key in above:
            at = at[key]
        at[last] = copy.deepcopy(rng.choice(ODD))
    return changed  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(150))
def test_an_odd_object_hides_no_other(seed: int) -> None:
    rng = random.Random(seed)
    parts, good = slices("a", "a100x4"), slices("b", "t4x2", ("whole",))
    share = held("c", "a/gpu-1-share", "p", memory=1024, cores=5)
    spared = held("d", "b/gpu-0", "q", namespace="spared")
    waiting = pod("p", "c", schedulingGates=[{"name": "lode.dev/allocation"}])
    waiting["metadata"]["namespace"] = "default"
    builder, found = ViewBuilder(NAMES), FoundNamespaces(NAMES)
    builder.add_slices([*(odd(part, rng) for part in parts), *good])
    builder.add_claims([odd(share, rng), spared])
    builder.add_nodes([odd({**node("a"), "spec": {"unschedulable": True}}, rng)])
    builder.add_rules([odd({"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "None"}}}, rng)])
    found.add_pods([odd(waiting, rng)])
    found.add_quotas(
        [odd({"metadata": {"namespace": "x", "name": "q"}, "spec": {"hard": {"lode.dev/cores": "1"}}}, rng)]
    )
    view = builder.view()
    assert {"b/gpu-0", "b/gpu-1"} <= {card.facts.key for card in view.cards}
    question = Question(NAMES, prices=PriceTable({"default": 1.0}))
    for module, listing in (
        (cards.COLUMNS, cards.report_on(view, question)),
        (nodes.COLUMNS, nodes.report_on(view, question)),
        (costs.COLUMNS, costs.report_on(view, question, {})),
        (COLUMNS, found.report(view, question)),
    ):
        for output in ("table", "wide", "json"):
            text = rendered(listing, module, output)
            assert "\x1b" not in text
    assert "spared" in rendered(found.report(view, question), COLUMNS, "table")
