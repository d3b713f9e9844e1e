"""Chromium, driven by Playwright; without either, the tests say which of them is missing."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from cli.ui.contents import FleetContents
from tests.page.fleets import every_state
from tests.page.looking import Look
from tests.page.served import StagedFleet, staged

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None  # type: ignore[assignment,unused-ignore]

CHROMIUM = shutil.which("chromium")
OpenPage = Callable[..., Look]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if sync_playwright is None or CHROMIUM is None:
        what = "Playwright (make ui-test installs it)" if sync_playwright is None else "chromium (apt install chromium)"
        message = f"{what} is missing"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Opens an address in a window of its own; an error of the page fails the test."""
    faults: list[str] = []
    with ExitStack() as stack:

        def opened(address: str, **options: Any) -> Look:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
            stack.callback(context.close)
            context.set_default_timeout(20_000)
            page = context.new_page()
            page.clock.install()
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("console", lambda said: faults.append(said.text) if _is_fault(said) else None)
            page.goto(address)
            return Look(page)

        yield opened
    assert faults == []


@pytest.fixture
def show(open_page: OpenPage) -> Iterator[Callable[..., tuple[Look, StagedFleet]]]:
    """Shows a fleet: the page, and the fleet that it follows."""
    with ExitStack() as stack:

        def shown(
            contents: FleetContents | None = None, view: str = "", seconds: float = 0.0, **options: Any
        ) -> tuple[Look, StagedFleet]:
            fleet = StagedFleet(contents or every_state())
            fleet.seconds = seconds
            address = stack.enter_context(staged(fleet))
            look = open_page(address, **options)
            look.ready()
            if view:
                look.go(view)
            return look, fleet

        yield shown


def _is_fault(said: Any) -> bool:
    """Whether the page logged an error; that an answer has a status of 400 or more is logged by the browser itself."""
    return said.type in ("error", "warning") and "Failed to load resource" not in said.text
