"""What a screen reader finds, contrasts, small screens, and less motion."""

from collections.abc import Callable

import pytest

from tests.page.looking import Look
from tests.page.served import StagedFleet

Show = Callable[..., tuple[Look, StagedFleet]]
VIEWS = ("fleet", "waiting", "claims", "gangs", "whatif")
NAMED = ("button", "link", "gridcell", "rowheader", "textbox", "searchbox", "combobox", "grid", "region", "navigation")


def test_everything_that_can_have_the_focus_has_a_role_and_a_name(show: Show) -> None:
    look, _ = show()
    for view in VIEWS:
        look.go(view)
        tree = look.tree()
        assert [one for one in tree if one["role"] in NAMED and not one["name"]] == [], view
        unnamed = [one for one in tree if one["focusable"] == "True" and not one["name"]]
        assert [one for one in unnamed if one["role"] not in ("main", "RootWebArea")] == [], view


def test_the_picture_is_a_grid_of_nodes_with_cards(show: Show) -> None:
    look, _ = show()
    roles = [one["role"] for one in look.tree()]
    counts = {role: roles.count(role) for role in ("grid", "row", "rowheader", "gridcell")}
    assert counts == {"grid": 3, "row": 3, "rowheader": 3, "gridcell": 14}
    names = [one["name"] for one in look.tree() if one["role"] == "gridcell"]
    assert "gpu-2 on gpu-1: shared, H100, held by team-b/notebook-7d4, team-b/chat-0" in names
    assert "gpu-0 on gpu-2: unhealthy, H100" in names


def test_the_page_has_landmarks_and_headings(show: Show) -> None:
    look, _ = show()
    look.one(".card").first.click()
    tree = look.tree()
    roles = {one["role"] for one in tree}
    assert {"banner", "navigation", "search", "main", "complementary", "alert", "status"} <= roles
    headings = [one["name"] for one in tree if one["role"] == "heading"]
    assert {"Lode", "Fleet", "InfiniBand cluster ib-a", "Card gpu-1/gpu-0", "Held by"} <= {*headings}


def test_a_selected_row_and_pressed_buttons_are_said(show: Show) -> None:
    look, _ = show(view="claims")
    look.one("#table-claims .link").first.click()
    assert look.one("#table-claims tr[aria-current=true]").count() == 1
    assert look.one("nav a[aria-current=page]").count() == 1


def test_what_the_filter_leaves_is_said(show: Show) -> None:
    look, _ = show()
    look.one("#filter-node").fill("npu")
    look.one("#said").get_by_text("2 of 14 shown").wait_for(state="attached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrasts_are_those_of_level_aa(show: Show, scheme: str) -> None:
    look, _ = show(seconds=100, color_scheme=scheme)
    look.one(".card").nth(1).click()
    for form in ("text", "nodes", "dots", "table"):
        look.one(f"button[data-form={form}]").click()
        look.settle()
        assert look.low_contrasts() == [], form
    for view in VIEWS[1:]:
        look.go(view)
        if view != "whatif":
            look.one(f"#table-{view} .link").first.click()
        assert look.low_contrasts() == [], view


def test_light_and_dark_are_different(show: Show) -> None:
    grounds = [
        show(color_scheme=scheme)[0].page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert len(set(grounds)) == 2


def test_nothing_is_wider_than_a_small_screen(show: Show) -> None:
    look, _ = show(viewport={"width": 320, "height": 640})
    look.one(".card").first.click()
    assert look.page.evaluate("() => document.documentElement.scrollWidth") <= 320
    for view in VIEWS:
        look.go(view)
        assert look.page.evaluate("() => document.documentElement.scrollWidth") <= 320, view


def test_a_list_is_a_table_for_a_screen_reader_on_a_small_screen_too(show: Show) -> None:
    look, _ = show(view="claims", viewport={"width": 320, "height": 640})
    roles = [one["role"] for one in look.tree()]
    # Of a claim that no pod uses, an empty cell is not there.
    counts = {role: roles.count(role) for role in ("table", "columnheader", "rowheader", "cell")}
    assert counts == {"table": 1, "columnheader": 5, "rowheader": 7, "cell": 27}


def test_nothing_moves_for_who_wants_less_motion(show: Show) -> None:
    look, _ = show(reduced_motion="reduce")
    moving = look.page.evaluate(
        """() => [...document.querySelectorAll("*")].filter((one) => {
            const style = getComputedStyle(one);
            return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0;
        }).length"""
    )
    assert moving == 0


def test_signs_keep_their_colours_where_the_system_forces_others(show: Show) -> None:
    look, _ = show(forced_colors="active")
    adjusted = look.page.evaluate(
        "() => getComputedStyle(document.querySelector('.card'), '::before').forcedColorAdjust"
    )
    assert adjusted == "none"
