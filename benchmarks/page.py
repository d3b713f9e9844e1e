"""How soon the page of `lode ui` shows a large fleet in Chromium, how large the document is, and what a change costs.

    make bench-page                              # 5,000 nodes with 8 cards each, a minute
    make bench-page ARGS="--nodes 500"

CPU is the processor time of the thread that runs the page, from its opening on. Times count from the moment when the
last byte of the document has arrived; the first picture is on the screen when the frame after the first cards has been
painted. Everything runs on this machine, browser and server.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.allocation.table import lines
from tests.page.fleets import large
from tests.page.served import StagedFleet, staged

_WATCH = """
window.seen = {};
new MutationObserver((_, observer) => {
  if (!document.querySelector("#picture .card")) return;
  observer.disconnect();
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { seen.first = performance.now(); };
    port2.postMessage(0);
  });
  new MutationObserver(() => {
    if (!document.querySelector("#picture").hasAttribute("aria-busy")) seen.all ??= performance.now();
  }).observe(document.querySelector("#picture"), { attributeFilter: ["aria-busy"] });
}).observe(document, { childList: true, subtree: true });
"""
_ARRIVED = "() => performance.getEntriesByType('resource').find((one) => one.name.endsWith('fleet.json')).responseEnd"
_CHANGED = """() => new Promise((resolve) => {
  const began = performance.now();
  new MutationObserver((_, observer) => {
    if (document.querySelector("#picture").hasAttribute("aria-busy")) return;
    observer.disconnect();
    resolve(performance.now() - began);
  }).observe(document.querySelector("#picture"), { attributeFilter: ["aria-busy"] });
  const field = document.querySelector("#filter-node");
  field.value = "node-01";
  field.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def main() -> int:
    """Run the benchmark; 1 without Chromium."""
    parser = argparse.ArgumentParser("python -m benchmarks.page", description="Show a large fleet in Chromium.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is missing: apt install chromium", file=sys.stderr)
        return 1
    contents = large(arguments.nodes)
    fleet = StagedFleet(contents)
    assert fleet.shown is not None
    size = f"{len(fleet.shown.text) / 2**20:.1f} MiB, {len(fleet.shown.packed) / 2**20:.2f} MiB gzipped"
    print(f"{arguments.nodes} nodes, {len(contents.view.cards)} cards, {len(contents.claims)} claims: {size}")
    with sync_playwright() as playwright, staged(fleet) as address:
        browser = playwright.chromium.launch(executable_path=chromium)
        rows = [_run(browser, address, f"run {number + 1}") for number in range(arguments.runs)]
        browser.close()
    print(
        lines(("", "first picture s", "CPU", "whole picture s", "CPU", "another filter s", "CPU", "JS heap MiB"), rows)
    )
    return 0


def _run(browser: Any, address: str, name: str) -> Sequence[str]:
    """What one opening of the page takes."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.add_init_script(_WATCH)
    page.goto(address)
    spent = []
    for moment in ("first", "all"):
        while not page.evaluate(f"() => seen.{moment}"):
            page.wait_for_timeout(5 if moment == "first" else 100)
        spent.append(_processor(session))
    arrived, first, whole = page.evaluate(f"() => [({_ARRIVED})(), seen.first, seen.all]")
    filtered = page.evaluate(_CHANGED)
    spent.append(_processor(session) - spent[-1])
    heap = page.evaluate("() => performance.memory.usedJSHeapSize")
    page.close()
    walls = [part / 1000 for part in (first - arrived, whole - arrived, filtered)]
    figures = [f"{part:.2f}" for pair in zip(walls, spent, strict=True) for part in pair]
    return name, *figures, f"{heap / 2**20:.0f}"


def _processor(session: Any) -> float:
    """Seconds of processor time of the thread that runs the page, since it was opened."""
    found = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))


if __name__ == "__main__":
    sys.exit(main())
