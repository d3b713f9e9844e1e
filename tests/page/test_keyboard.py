"""Everything can be done with the keyboard, and what has the focus is seen."""

from collections.abc import Callable

from cli.ui.contents import FleetContents
from tests.page.fleets import card, contents
from tests.page.looking import Look
from tests.page.served import StagedFleet

Show = Callable[..., tuple[Look, StagedFleet]]


def walkable(nodes: int = 4, cards: int = 4) -> FleetContents:
    return contents(
        card(f"n-{node}/gpu-{number}", ib=f"ib-{node // 2}") for node in range(nodes) for number in range(cards)
    )


def at(name: str) -> str:
    """What is said of a free card."""
    node, _, number = name.partition("/")
    return f"gpu-{number} on n-{node}: free, H100"


def test_arrows_go_from_card_to_card_and_on_to_the_next_node(show: Show) -> None:
    look, _ = show(walkable())
    look.one(".card").first.focus()
    assert look.press("ArrowRight") == at("0/1")
    assert look.press("End") == at("0/3")
    assert look.press("ArrowRight") == "node n-1"
    assert look.press("ArrowRight") == at("1/0")
    assert look.press("ArrowLeft", "ArrowLeft") == at("0/3")


def test_up_and_down_go_to_what_is_seen_there(show: Show) -> None:
    look, _ = show(walkable())
    look.one(".card").nth(2).focus()
    assert look.press("ArrowDown") in ("node n-1", at("1/2"))
    assert look.press("ArrowDown", "ArrowDown", "ArrowUp") != ""


def test_up_and_down_go_from_fabric_to_fabric_where_they_stand_side_by_side(show: Show) -> None:
    look, _ = show(walkable(8))
    look.one("button[data-form=nodes]").click()
    look.settle()
    look.one(".card").nth(2).focus()
    assert look.press("ArrowDown", "ArrowDown") == at("6/2")
    assert look.press("ArrowUp", "ArrowUp") == at("0/2")


def test_home_end_and_pages_go_to_the_ends_and_fabrics(show: Show) -> None:
    look, _ = show(walkable())
    look.one(".card").nth(2).focus()
    assert look.press("Home") == "node n-0"
    assert look.press("Control+End") == at("3/3")
    assert look.press("Control+Home") == "node n-0"
    assert look.press("PageDown") == "node n-2"
    assert look.press("PageUp") == "node n-0"


def test_the_picture_is_one_stop_of_the_tab_key(show: Show) -> None:
    look, _ = show(walkable())
    look.one("#legend button:visible").last.focus()
    assert look.press("Tab") == "node n-0"
    look.press("ArrowRight", "ArrowRight")
    assert look.press("Shift+Tab").startswith("partitioned")
    assert look.press("Tab") == at("0/1")
    assert look.one("#picture [tabindex='0']").count() == 1


def test_enter_shows_the_details_and_escape_leads_back(show: Show) -> None:
    look, _ = show(walkable())
    look.one(".card").first.focus()
    look.press("ArrowRight")
    assert look.press("Enter") == "Card n-0/gpu-1"
    assert look.one("#panel").is_visible()
    assert look.press("Escape") == at("0/1")
    assert look.one("#panel").is_hidden()


def test_what_has_the_focus_keeps_it_when_the_fleet_changes(show: Show) -> None:
    look, fleet = show(walkable())
    look.one(".card").nth(5).focus()
    fleet.show(walkable(5))
    look.later()
    look.one(".card").nth(19).wait_for()
    assert look.focused() == at("1/1")


def test_a_card_that_goes_leaves_a_stop_for_the_tab_key(show: Show) -> None:
    look, fleet = show(walkable())
    look.one(".card").last.focus()
    fleet.show(walkable(2))
    look.later()
    look.one(".card").nth(15).wait_for(state="detached")
    look.settle()
    assert look.one("#picture [tabindex='0']").count() == 1


def test_skip_links_come_first_and_lead_to_the_content(show: Show) -> None:
    look, _ = show(walkable())
    assert look.press("Tab") == "Skip to the content"
    look.press("Enter")
    assert look.page.evaluate("() => document.activeElement.id") == "main"


def test_a_view_that_is_chosen_has_the_focus_at_its_heading(show: Show) -> None:
    look, _ = show(walkable())
    look.one("nav a[data-view=claims]").focus()
    assert look.press("Enter") == "Claims"


def test_whatever_has_the_focus_has_an_outline(show: Show) -> None:
    look, _ = show(walkable())
    seen = set()
    for _ in range(40):
        look.page.keyboard.press("Tab")
        name, style = look.page.evaluate(
            """() => [document.activeElement.outerHTML.slice(0, 60),
                      getComputedStyle(document.activeElement).outlineStyle]"""
        )
        if "<body" in name:
            break
        seen.add(name)
        assert style not in ("none", "hidden"), name
    assert len(seen) > 12
