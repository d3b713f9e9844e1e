"""Size of the document of `lode ui` for a large fleet, the time that it takes to read and write, and the memory.

    make bench-ui                              # 5,000 nodes with 8 cards each, some two minutes
    make bench-ui ARGS="--nodes 100"

Seven of eight cards are held: by whole cards and, one node in ten, by two shares each. Names end as Kubernetes makes
them, so that nothing compresses better than it would. 2,000 pods wait, each with a message of its own. Processor time
without the API server's and the network's; the pages are decoded as those of an API server are.
"""

import argparse
import json
import random
import resource as limits
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from benchmarks.top import ServedFleet
from cli.ui.following import FOLLOWED, FollowedFleet
from cli.ui.publishing import packed_document
from controller.state import GANG_RESOURCES
from driver.kinds import EVERY_OFFER
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, Api, Object, Resource
from driver.kube.reflector import Reflector
from driver.names import Names
from tests.unit.cli.cluster import claim, node, pod, stored
from tests.unit.cli.fleetview.views import held

BYTES: Final = 1 << 20
"""The bar for the document as it is sent."""
SECONDS: Final = 5.0
"""The bar for the time to write it."""
WAITING: Final = 2000
_GIBI: Final = 1 << 30
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of the ends that Kubernetes gives to names."""
_NAMESPACES: Final = 200
_PODS_OF_WORKLOAD: Final = 16
_NAMES: Final = Names()


class ServedUsers(ServedFleet):
    """Serves nodes with their slices, pods and claims."""

    def objects(self, kind: Resource, number: int) -> str:
        """The objects of a kind that belong to a node, as the inside of a list."""
        if kind not in (NODES, PODS, RESOURCE_CLAIMS):
            return super().objects(kind, number)
        made = (
            [node(f"node-{number}")] if kind == NODES else [it for it in self._used(number) if it["kind"] == kind.kind]
        )
        return json.dumps(made)[1:-1]

    def _used(self, number: int) -> Iterator[Object]:
        """The claims on a node with their pods, and one pod that waits for a card."""
        ends = random.Random(number)
        for place in range(14 if number % 10 == 0 else 7):
            card = place % 7
            namespace, name = self._workload(number * 7 + card, ends)
            uses = f"{name}-gpu-{_end(ends)}"
            share = {"memory": 20 * _GIBI, "cores": 25} if number % 10 == 0 else {}
            yield held(uses, f"node-{number}/gpu-{card}{'-share' if share else ''}", name, namespace=namespace, **share)
            yield _pod(name, namespace, uses, nodeName=f"node-{number}")
        if number < WAITING:
            namespace, name = self._workload(number * 7, ends)
            wanted = f"{name}-gpu-{_end(ends)}"
            yield {**stored(claim(wanted)), "metadata": {**stored(claim(wanted))["metadata"], "namespace": namespace}}
            waits = _pod(name, namespace, wanted, schedulingGates=[{"name": _NAMES.gate}])
            yield {**waits, "status": {"phase": "Pending", "conditions": [_condition(f"{namespace}/{wanted}", ends)]}}

    @staticmethod
    def _workload(place: int, ends: random.Random) -> tuple[str, str]:
        workload = place // _PODS_OF_WORKLOAD
        shared = random.Random(workload)
        return f"team-{workload % _NAMESPACES}", f"trainer-{workload}-{_end(shared)}{_end(shared)}-{_end(ends)}"


def _pod(name: str, namespace: str, uses: str, **spec: Any) -> Object:
    made = stored(pod(name, uses, **spec))
    return {**made, "metadata": {**made["metadata"], "namespace": namespace, "uid": f"uid-{namespace}-{name}"}}


def _end(ends: random.Random) -> str:
    return "".join(ends.choices(_LETTERS, k=5))


def _condition(wanted: str, ends: random.Random) -> Object:
    holders = ", ".join(f"team-{ends.randrange(_NAMESPACES)}/trainer-{_end(ends)}" for _ in range(3))
    message = (
        f"0 of 5000 nodes can take the pod. 4500 nodes: claim {wanted}, request r: wants 8 of gpu.lode.dev, 1 of 160 "
        f"devices fit (152 excluded by device class selector, 7 in use); in use by {holders} and 4 more. 500 nodes: "
        "excluded by node selector"
    )
    said = {"type": "lode.dev/Allocated", "status": "False", "reason": "Unallocatable", "message": message}
    return {**said, "lastTransitionTime": "2027-01-15T08:00:00Z"}


def main(argv: Sequence[str]) -> int:
    """Measure, print, and compare with the bars; 1 if one is not met."""
    parser = argparse.ArgumentParser("benchmarks.ui", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--offer", default="-".join(EVERY_OFFER), help="default: %(default)s")
    arguments = parser.parse_args(argv)
    print(f"{arguments.nodes} nodes, {8 * arguments.nodes} cards, offered as {arguments.offer}")
    api, fleet, begun = ServedUsers(arguments.nodes, arguments.offer), FollowedFleet(_NAMES), time.process_time()
    for kind in FOLLOWED:
        if kind not in GANG_RESOURCES and kind != DEVICE_CLASSES:
            _list(api, kind, fleet)
    read = time.process_time() - begun - api.decoding
    begun = time.process_time()
    document = packed_document(fleet.contents(), _NAMES.driver, time.time())
    written = time.process_time() - begun
    peak = limits.getrusage(limits.RUSAGE_SELF).ru_maxrss // 1024
    sizes = {name: len(json.dumps(value)) for name, value in json.loads(document.text).items()}
    print(
        f"read once: {read:.1f} s; document: {written:.1f} s, {len(document.text) >> 10} KiB of JSON, "
        f"{len(document.packed) >> 10} KiB as it is sent; at most {peak} MiB"
    )
    print(
        "largest parts: "
        + ", ".join(f"{name} {size >> 10} KiB" for name, size in sorted(sizes.items(), key=lambda it: -it[1])[:5])
    )
    met = len(document.packed) <= BYTES and written <= SECONDS
    print(f"bars of {BYTES >> 10} KiB and {SECONDS:g} s: {'met' if met else 'not met'}")
    return 0 if met else 1


def _list(api: Api, kind: Resource, fleet: FollowedFleet) -> None:
    Reflector(api, kind, fleet.take).step()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
