"""Changes are followed; what is old, missing or wrong is said."""

from collections.abc import Callable
from dataclasses import replace

from cli.ui.contents import FleetContents, KindGap
from tests.page.conftest import OpenPage
from tests.page.fleets import contents, every_state, whole
from tests.page.looking import Look
from tests.page.served import StagedFleet, staged

Show = Callable[..., tuple[Look, StagedFleet]]


def changed() -> FleetContents:
    """The fleet when a claim has got the card gpu-1/gpu-4."""
    place = "gpu-1/gpu-4"
    new = whole(place, "team-c/new", "new-0", ib="ib-a")
    return contents(new if one.facts.key == place else one for one in every_state().view.cards)


def test_a_change_is_seen_without_a_reload(show: Show) -> None:
    look, fleet = show()
    look.one(".card").first.click()
    fleet.show(changed())
    look.later()
    look.one(".card[data-state=whole]").nth(2).wait_for()
    assert look.cells()["card/gpu-1/gpu-4"]["label"] == "gpu-4 on gpu-1: whole, H100, held by team-c/new-0"
    assert look.text("#panel h2") == "Card gpu-1/gpu-0"


def test_what_is_the_same_is_not_sent_again(show: Show) -> None:
    look, _ = show()
    statuses: list[int] = []
    look.page.on("response", lambda found: statuses.append(found.status) if "fleet.json" in found.url else None)
    with look.page.expect_response("**/fleet.json"):
        look.later()
    assert statuses == [304]


def test_the_age_of_the_data_is_shown_and_grows(show: Show) -> None:
    look, fleet = show()
    fleet.seconds = 7
    look.later()
    look.later(2)
    look.one("#age").get_by_text("Read 9 s ago").wait_for()
    assert look.one("#age").get_attribute("data-age") == "new"
    fleet.seconds = 3700
    look.later()
    look.one("#age").get_by_text("Read 61 min ago").wait_for()
    assert look.one("#age").get_attribute("data-age") == "old"


def test_a_server_that_is_gone_is_said_once_and_the_picture_stays(open_page: OpenPage) -> None:
    fleet = StagedFleet(every_state())
    with staged(fleet) as address:
        look = open_page(address)
        look.ready()
    look.later()
    look.one("#trouble p").wait_for()
    assert look.texts("#trouble p") == ["The server does not answer. Is lode ui still running? What is shown is old."]
    assert look.one("#age").get_attribute("data-age") == "old"
    assert len(look.cells()) == 14


def test_until_the_cluster_is_read_the_reason_is_shown(open_page: OpenPage) -> None:
    fleet = StagedFleet()
    with staged(fleet) as address:
        look = open_page(address)
        look.one("#trouble").get_by_text("nothing has been read yet").wait_for()
        fleet.show(every_state())
        look.later()
        look.ready()
        assert look.text("#trouble") == ""


def test_kinds_that_cannot_be_read_are_named(show: Show) -> None:
    missing = KindGap("pods", "you may not list pods in the whole cluster")
    problem = KindGap("nodes", "the API server answers 500", "2026-11-27T06:40:00Z")
    notes = ("ResourceClaim a/b is left out",)
    look, _ = show(replace(every_state(), missing=(missing,), problems=(problem,), notes=notes))
    assert look.texts("#trouble p") == ["What is shown of nodes is old: the API server answers 500"]
    look.one("#gaps summary").click()
    assert look.texts("#gaps li") == ["you may not list pods in the whole cluster", "ResourceClaim a/b is left out"]


def test_of_namespaces_that_one_may_not_see_the_states_are_shown(show: Show) -> None:
    look, fleet = show()
    fleet.show(every_state(), "team-a")
    look.later()
    look.one("#count-claims").get_by_text("4").wait_for()
    somebody = "held by somebody in a namespace that you may not see"
    assert look.cells()["card/gpu-1/gpu-0"]["label"] == f"gpu-0 on gpu-1: whole, H100, {somebody}"
    assert "team-a" not in look.page.content()


def test_a_page_without_the_token_asks_for_it(open_page: OpenPage) -> None:
    with staged(StagedFleet(every_state())) as address:
        page, _, token = address.partition("#token=")
        look = open_page(page)
        look.one("#login[open]").wait_for()
        look.one("#token").fill(token)
        look.one("#login button").click()
        look.ready()
        assert look.one("#login").is_hidden()
        assert len(look.cells()) == 14


def test_the_address_does_not_keep_the_token_and_a_reload_does(show: Show) -> None:
    look, _ = show()
    assert "token" not in look.page.url
    look.page.reload()
    look.ready()
    assert len(look.cells()) == 14
