"""Questions to the cluster: why something waits, down to the device, and what would become of a manifest."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import yaml

from cli.shipped import device_classes
from cli.ui.questions import ClusterQuestions
from cli.ui.run import served
from memoryapi import MemoryApi
from tests.page.conftest import OpenPage
from tests.page.looking import Look
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import claim, node, pod, slices, stored
from tests.unit.cli.fleetview.views import held
from tests.unit.cli.ui.fleets import NAMES
from tests.unit.cli.ui.served import filled, memory_api

OpenView = Callable[..., Look]
GATE = [{"name": "lode.dev/allocation"}]


@pytest.fixture
def api() -> MemoryApi:
    """A node with two cards, one of them held, and a pod that waits for two."""
    waits = [stored(claim("big", count=2)), stored(pod("waits", "big", schedulingGates=GATE))]
    cards = slices("a", "t4x2", ("whole",), "ib-a")
    return memory_api(stored(node("a")), *device_classes(), *cards, held("c", "a/gpu-0", "p"), *waits)


@pytest.fixture
def view(api: MemoryApi, open_page: OpenPage) -> Iterator[OpenView]:
    """Opens a view of the page of this cluster."""
    with ExitStack() as stack:

        def opened(view: str) -> Look:
            look = open_page(stack.enter_context(served(ClusterQuestions(api, NAMES))))
            look.ready()
            look.go(view)
            return look

        yield opened


def ask(look: Look, *objects: object) -> None:
    """Paste a manifest and ask; returns when there is an answer."""
    look.one("#manifest").fill(yaml.safe_dump_all(objects))
    look.one("#ask").click()
    look.one("#answer > :not(:empty)").first.wait_for()


def test_a_waiting_pod_is_explained_down_to_the_device(view: OpenView) -> None:
    look = view("waiting")
    look.one(
        "#table-waiting .link",
    ).get_by_text("default/waits").click()
    look.one("#panel").get_by_text("Why does it wait?").click()
    look.one("#panel .groups").wait_for()
    said = look.text("#panel .answer")
    for words in (
        "It waits: Unallocatable.",
        "The only node cannot take it.",
        "wants 2 of gpu.lode.dev, 1 of 2 devices fit",
        "1 in use",
        "held by default/c",
        "Closest: a has 1 of 2; it would do to end default/c",
    ):
        assert words in said
    look.one("#panel .groups [data-target='claim/default/c']").first.click()
    assert look.text("#panel h2") == "Claim default/c"


def test_what_was_answered_stays_while_the_fleet_changes(view: OpenView, api: MemoryApi) -> None:
    look = view("waiting")
    look.one("#table-waiting .link").first.click()
    look.one("#panel [data-target=explain]").click()
    look.one("#panel .groups").wait_for()
    filled(api, held("new", "a/gpu-1", "q"))
    look.later()
    look.one("#count-claims").get_by_text("3").wait_for()
    assert look.one("#panel .groups").is_visible()


def test_a_card_is_explained_with_its_uuid(view: OpenView) -> None:
    look = view("fleet")
    look.one(".card").first.click()
    look.one("#panel [data-target=explain]").click()
    look.one("#panel .answer").get_by_text("UUID GPU-").wait_for()


def test_a_gang_is_explained_domain_by_domain(view: OpenView, api: MemoryApi, monkeypatch: pytest.MonkeyPatch) -> None:
    later = VirtualClock().now() + 60
    monkeypatch.setattr("cli.explain.run.time", SimpleNamespace(time=lambda: later))
    gang, topology = {"name": "train", "minAvailable": 2}, [{"attribute": "lode.dev/ibCluster"}]
    terms = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": gang, "topology": topology}
    for name in ("train-0", "train-1"):
        member = claim(name, count=2)
        member["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": terms}}]
        filled(api, stored(member), stored(pod(name, name, schedulingGates=GATE)))
    look = view("gangs")
    look.one("#table-gangs .link").first.click()
    look.one("#panel [data-target=explain]").click()
    look.one("#panel .notes").get_by_text("gang default/train: 0 of 2 members fit in ib-a").wait_for()


def test_a_manifest_that_fits_is_placed_and_its_card_ringed(view: OpenView) -> None:
    look = view("whatif")
    ask(look, claim("one"), pod("new", "one"))
    said = look.text("#answer")
    assert "1 object: 1 placed, 0 wait." in said
    assert "There is a place for it now, on node a." in said
    assert "a/gpu-1" in said
    look.one("#answer a").click()
    look.settle()
    assert look.marked() == ["card/a/gpu-1"]


def test_a_manifest_that_does_not_fit_is_told_why(view: OpenView) -> None:
    look = view("whatif")
    ask(look, claim("three", count=3), pod("new", "three"))
    assert "1 object: 0 placed, 1 waits." in look.text("#answer")
    assert "wants 3 of gpu.lode.dev" in look.text("#answer .groups")


def test_the_faults_of_a_manifest_are_all_shown(view: OpenView) -> None:
    look = view("whatif")
    ask(look, {**claim("c"), "spec": {"devices": {"requests": [{"name": "r"}, {"name": "R"}]}}})
    assert look.one("#answer .faults li").count() > 1


def test_a_manifest_that_asks_for_nothing_says_so(view: OpenView) -> None:
    look = view("whatif")
    ask(look, pod("plain"))
    assert "Nothing of it asks for devices of this driver." in look.text("#answer")


def test_a_claim_that_is_made_is_followed_from_the_api(view: OpenView, api: MemoryApi) -> None:
    look = view("fleet")
    filled(api, held("new", "a/gpu-1", "q"))
    look.later()
    look.one(".card[data-state=whole]").nth(1).wait_for()
    assert look.cells()["card/a/gpu-1"]["label"] == "gpu-1 on a: whole, T4, held by default/q"
