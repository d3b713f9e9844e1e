"""How long `lode top` takes for a large fleet, and how much memory: what it reads is served from memory, page by page.

    make bench-top                             # 5,000 nodes with 8 cards each, about two minutes
    make bench-top ARGS="--nodes 100 --offer whole-share"

Processor time without the API server's and the network's; the pages are decoded as those of an API server are.
"""

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

from cli.top import cards, namespaces, nodes
from cli.top.question import Question
from cli.top.report import Listing, rendered
from driver.kinds import EVERY_OFFER
from driver.kube.api import RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiCall, Object, Page, Resource
from driver.kube.codec import decode_page
from driver.names import Names
from tests.unit.cli.cluster import slices
from tests.unit.cli.fleetview.views import held

_NAME = "name-of-the-node"
_MEBI = 1024


class ServedFleet(Api):
    """Serves the slices of nodes with eight H100 each, and a claim for seven of the eight cards of each."""

    def __init__(self, nodes: int, offer: str):
        self._nodes = nodes
        self._slices = json.dumps(slices(_NAME, "h100x8", tuple(one for one in EVERY_OFFER if one in offer.split("-"))))
        self._claims = json.dumps([held(f"{_NAME}-{card}", f"{_NAME}/gpu-{card}", "p") for card in range(7)])
        self._counts: dict[Resource, int] = {}
        self.decoding = 0.0
        """Seconds of processor time to make the pages, which an API server would do."""

    def call(self, call: ApiCall) -> Any:
        """A page of a list: as many nodes as have about ``limit`` objects."""
        begun = time.process_time()
        count = self._count(call.resource)
        first = int(call.continue_token or 0)
        last = min(self._nodes, first + max(1, call.limit // max(1, count)))
        parts = [self.objects(call.resource, number) for number in range(first, last)] if count else []
        page = self._page(call.resource, parts, str(last) if last < self._nodes and count else "")
        self.decoding += time.process_time() - begun
        return page

    def _count(self, kind: Resource) -> int:
        """Objects of the kind that belong to node 0."""
        if kind not in self._counts:
            self._counts[kind] = len(json.loads(f"[{self.objects(kind, 0)}]"))
        return self._counts[kind]

    def objects(self, kind: Resource, number: int) -> str:
        """The objects of a kind that belong to a node, as the inside of a list; node 0 has some of each kind."""
        text = {RESOURCE_SLICES: self._slices, RESOURCE_CLAIMS: self._claims}.get(kind, "[]")
        return text.replace(_NAME, f"node-{number}")[1:-1]

    def _page(self, kind: Resource, parts: Sequence[str], more: str) -> Page:
        metadata = json.dumps({"resourceVersion": "1", "continue": more})
        data = f'{{"metadata": {metadata}, "items": [{",".join(parts)}]}}'.encode()
        added: Object = {"apiVersion": kind.api_version, "kind": kind.kind}
        return decode_page(data, added)


def main(argv: Sequence[str]) -> int:
    """Measure and print a line for each subject."""
    parser = argparse.ArgumentParser("benchmarks.top", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--offer", default="-".join(EVERY_OFFER), help="default: %(default)s")
    arguments = parser.parse_args(argv)
    print(f"{arguments.nodes} nodes, {8 * arguments.nodes} cards, offered as {arguments.offer}")
    gc.disable()  # as the command does
    for name, subject in (("nodes", nodes), ("cards", cards), ("namespaces", namespaces)):
        api, begun = ServedFleet(arguments.nodes, arguments.offer), time.process_time()
        found: Listing = subject.report(api, Question(Names()))
        read = time.process_time() - begun - api.decoding
        begun = time.process_time()
        text = rendered(found, subject.COLUMNS, "table")
        printed = time.process_time() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _MEBI
        print(
            f"top {name:<12} {read:5.1f} s to read, {printed:4.1f} s to print {len(text.splitlines())} lines, "
            f"at most {peak} MiB so far"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
