"""The page in a cluster: people come with tokens of their own, and see with the rights of these."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import pytest

from cli.ui.access import ReviewedDoor
from cli.ui.answers import PageAnswers
from cli.ui.contents import FleetContents
from cli.ui.publishing import FleetDocuments
from cli.ui.questions import ClusterQuestions
from cli.ui.run import PAGE, PageServer
from tests.page.looking import Look
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import node, slices, stored
from tests.unit.cli.fleetview.views import held
from tests.unit.cli.ui.fleets import NAMES, contents_of
from tests.unit.cli.ui.test_access import Reviewer

OpenPage = Callable[..., Look]


@dataclass(frozen=True)
class StillFleet:
    """A fleet that is known and does not change."""

    known: FleetContents
    revision: str = "the only one"
    trouble: str = ""

    def contents(self) -> FleetContents:
        return self.known

    def age(self) -> float:
        return 0.0


@contextmanager
def shared(reviewer: Reviewer) -> Iterator[str]:
    """The page of a fleet of two tenants; yields its address."""
    held_cards = [
        held("my-claim", "a/gpu-0", "my-pod", namespace="mine"),
        held("secret-claim", "a/gpu-1", "secret-pod", namespace="theirs"),
    ]
    fleet = StillFleet(contents_of([*slices("a", "t4x2", ("whole",)), stored(node("a")), *held_cards]))
    documents = FleetDocuments(fleet, NAMES.driver, VirtualClock())
    documents.write()
    door = ReviewedDoor(reviewer, lambda _: nullcontext(ClusterQuestions(reviewer, NAMES)), VirtualClock())
    server = PageServer("127.0.0.1:0", PageAnswers(documents, door, None, PAGE).answer)
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        server.close()


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer()


def logged_in(open_page: OpenPage, address: str) -> Look:
    look = open_page(address)
    look.one("#login[open]").wait_for()
    look.one("#token").fill("good")
    look.one("#login button").click()
    return look


def test_a_user_of_one_namespace_sees_no_name_of_another(open_page: OpenPage, reviewer: Reviewer) -> None:
    with shared(reviewer) as address:
        look = logged_in(open_page, address)
        look.ready()
        (own, others) = look.cells().values()
        assert (own["state"], others["state"]) == ("whole", "whole")
        assert "my-pod" in own["label"]
        assert "somebody in a namespace that you may not see" in others["label"]
        for view in ("fleet", "waiting", "claims", "gangs"):
            look.go(view)
            assert "secret" not in look.page.content()
            assert "theirs" not in look.page.content()


def test_who_may_see_everything_sees_every_name(open_page: OpenPage, reviewer: Reviewer) -> None:
    reviewer.rights |= {("resourceclaims", ""), ("pods", "")}
    with shared(reviewer) as address:
        look = logged_in(open_page, address)
        look.ready()
        assert "secret-pod" in [*look.cells().values()][1]["label"]


def test_who_may_not_look_is_told_what_is_missing(open_page: OpenPage, reviewer: Reviewer) -> None:
    reviewer.rights.clear()
    with shared(reviewer) as address:
        look = logged_in(open_page, address)
        look.page.get_by_text("ClusterRole lode-ui-user").first.wait_for()
        assert look.cells() == {}
