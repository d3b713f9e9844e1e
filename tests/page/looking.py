"""What tests do with the page, and see of it."""

from pathlib import Path
from typing import Any

_CONTRASTS = (Path(__file__).parent / "contrasts.js").read_text()


class Look:
    """A page in the browser."""

    def __init__(self, page: Any):
        self.page = page

    def ready(self) -> None:
        """Wait until a fleet is shown whole."""
        self.one("#age[data-age]:not([data-age=none])").wait_for()
        self.settle()

    def settle(self) -> None:
        """Wait until the page has drawn what it knows."""
        self.page.locator("#picture:not([aria-busy])").wait_for(state="attached")

    def later(self, seconds: int = 5) -> None:
        """Let time pass for the page: as much as until it asks again, if nothing is said."""
        self.page.clock.run_for(seconds * 1000)

    def go(self, view: str) -> None:
        """Choose a view."""
        self.one(f"nav a[data-view={view}]").click()
        self.settle()

    def one(self, selector: str) -> Any:
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        return str(self.one(selector).inner_text())

    def texts(self, selector: str) -> list[str]:
        return [str(text) for text in self.one(selector).all_inner_texts()]

    def cells(self) -> dict[str, dict[str, str]]:
        """The cards of the picture: id to what is seen and read aloud of them."""
        found = self.page.evaluate(
            """() => [...document.querySelectorAll("#picture .card")].map((cell) => [cell.thing.id, {
                state: cell.dataset.state, use: cell.dataset.use, lid: cell.dataset.lid,
                label: cell.getAttribute("aria-label"), hidden: String(Boolean(cell.closest("[hidden]"))),
                other: String(cell.classList.contains("other")), marked: String(cell.classList.contains("marked"))}])"""
        )
        return {str(key): dict(value) for key, value in found}

    def marked(self) -> list[str]:
        """The cards with a ring."""
        return [key for key, cell in self.cells().items() if cell["marked"] == "true"]

    def focused(self) -> str:
        """The name that a screen reader says of what has the focus."""
        return str(
            self.page.evaluate(
                "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"
            )
        )

    def press(self, *keys: str) -> str:
        """Press keys; what has the focus then."""
        for key in keys:
            self.page.keyboard.press(key)
        return self.focused()

    def tree(self) -> list[dict[str, str]]:
        """The accessibility tree: role, name and whether it can have the focus."""
        session = self.page.context.new_cdp_session(self.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        return [
            {
                "role": node["role"]["value"],
                "name": str(node.get("name", {}).get("value", "")),
                "focusable": str(any(one["name"] == "focusable" for one in node.get("properties", ()))),
            }
            for node in nodes
            if not node.get("ignored")
        ]

    def low_contrasts(self) -> list[str]:
        """Texts and signs with less contrast than WCAG's level AA asks for."""
        return [str(one) for one in self.page.evaluate(_CONTRASTS)]
