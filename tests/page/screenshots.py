"""``make screenshots``: pictures of the page for the documentation, from the fleet of the demo."""

import argparse
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.unit.cli.ui.served import INTERRUPTIBLE

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\S+")


def main() -> int:
    """Make the pictures; 1 without what they are made with."""
    parser = argparse.ArgumentParser("python -m tests.page.screenshots")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    missing = [name for name in ("chromium", "pngquant") if not shutil.which(name)]
    if missing:
        print(f"missing: apt install {' '.join(missing)}", file=sys.stderr)
        return 1
    with sync_playwright() as playwright, demo() as address:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for scheme in ("light", "dark"):
            page = _opened(browser, address, scheme)
            page.screenshot(path=folder / f"ui-fleet-{scheme}.png")
            page.close()
        page = _opened(browser, address, "light")
        page.locator("nav a[data-view=waiting]").click()
        page.locator("#table-waiting .link").first.click()
        page.locator("#panel [data-target=explain]").click()
        page.locator("#panel .groups").wait_for()
        page.locator("#panel-title").click()
        page.locator("#panel").evaluate("(panel) => panel.scrollTo(0, 0)")
        page.screenshot(path=folder / "ui-waiting.png")
        browser.close()
    pictures = sorted(map(str, folder.glob("ui-*.png")))
    quantized = ["pngquant", "--quality", "80-95", "--speed", "1", "--strip", "--force", "--ext", ".png", *pictures]
    subprocess.run(quantized, check=True)
    return 0


def _opened(browser: Any, address: str, scheme: str) -> Any:
    page = browser.new_page(viewport={"width": 1200, "height": 640}, color_scheme=scheme)
    page.goto(address)
    page.locator("#age[data-age=new]").wait_for()
    page.locator("#picture:not([aria-busy])").wait_for(state="attached")
    return page


@contextmanager
def demo() -> Iterator[str]:
    """The address of the page of a demo that runs meanwhile."""
    running = subprocess.Popen(
        [*INTERRUPTIBLE, sys.executable, "-m", "cli", "demo", "--ui"], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert running.stdout is not None
    try:
        yield next(found[0] for line in running.stdout if (found := _ADDRESS.search(line)))
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=120)


if __name__ == "__main__":
    sys.exit(main())
