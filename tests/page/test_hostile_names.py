"""Names that others chose harm nothing: they are shown, cut where they do not fit, and never read as markup."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cli.ui.contents import FleetContents, KindGap
from tests.page.fleets import card, contents, held, waiting
from tests.page.looking import Look
from tests.page.served import StagedFleet

Show = Callable[..., tuple[Look, StagedFleet]]
HOSTILE = {
    "markup": "<img src=x onerror=\"document.title='harmed'\"><script>document.title='harmed'</script>",
    "quotes": "\"'`;}</style><style>*{display:none}",
    "long": "x" * 5000,
    "right to left": "\u202eevil\u2066\u05d0\u05d1\u05d2",
    "control": "a\x00b\x07c\x1b[31md\u200be",
    "prototype": "__proto__",
    "address": "javascript:alert(1)",
    "slashes": "../../a%2Fb?c=d#e",
}


def hostile(text: str) -> FleetContents:
    cards = [
        card("gpu-1/gpu-0", held("gpu-1/gpu-0", "whole", f"default/{text}", text), ib=text, kind=text),
        card(f"{text.replace('/', '')}/gpu-0"),
    ]
    gang = {"namespace": "default", "gang": text, "members": 1, "ibClusters": [text], "reason": text, "message": text}
    made = contents(cards, waiting(f"default/{text}-2", f"default/{text}", text), gangs=(gang,), notes=(text,))
    return replace(made, problems=(KindGap("pods", text),), missing=(KindGap("nodes", text),))


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_name_is_shown_and_harms_nothing(show: Show, what: str) -> None:
    look, _ = show(hostile(HOSTILE[what]))
    assert len(look.cells()) == 2
    look.one(".card").first.click()
    look.one("#panel .holdings .link").first.click()
    for view in ("waiting", "claims", "gangs", "fleet"):
        look.go(view)
        if view != "fleet":
            look.one(f"#table-{view} .link").first.click()
        assert look.page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0, view
        assert look.one("h1").is_visible()
    assert look.page.title() == "Lode"
    assert look.one("main img, main script, main style, aside img, aside script").count() == 0
    assert "/" in look.page.url
    assert look.page.url.startswith("http://127.0.0.1")


@pytest.mark.parametrize("what", ["right to left", "control"])
def test_characters_that_turn_or_hide_others_are_made_visible(show: Show, what: str) -> None:
    look, _ = show(hostile(HOSTILE[what]))
    shown = look.text("body")
    assert not {*shown} & {"\u202e", "\u2066", "\u200b", "\x00", "\x1b", "\x07"}
    assert ("\u27e8U+202E\u27e9" if what == "right to left" else "\u2400") in shown
