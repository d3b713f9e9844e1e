"""Through which files and functions of the product one pod, one prepare and one `lode simulate` pass.

    make bench-journeys                # numbers; ARGS=--list names each file with its functions

Calls are seen by ``sys.setprofile``. What counts is a function that somebody wrote in the product, so no comprehension,
nothing that runs while a module is imported, and none of the fakes that stand for Kubernetes. Each journey is made by a
program that is warm: it has done the same for another pod or claim before, of another shape, so that caches of what was
read help as in daily work and none has the answer. `lode simulate` is a new process as for each user.
"""

import argparse
import contextlib
import inspect
import io
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType

from benchmarks.allocation.table import lines
from benchmarks.wholeloop import CLASS, NAMES, NAMESPACE, WholeLoop
from driver.kube.api import PODS, RESOURCE_CLAIMS
from driver.observe import configure_logs
from driver.settings import Settings
from tests.unit.cli.cluster import node, pod, slices, template
from tests.unit.kubeletplugin.plugin_node import PluginNode, result

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("driver", "controller", "kubeletplugin", "cli")
SIMULATED = "--simulated"
"""The option of the process that makes the journey of ``lode simulate``."""
Journey = Mapping[str, Sequence[str]]
"""File to its functions, in the order in which they are called first."""


class Trace:
    """Notes the functions of the product that are called while it is open."""

    def __init__(self) -> None:
        self._codes: dict[CodeType, None] = {}
        self._importing = 0

    def __enter__(self) -> "Trace":
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def journey(self) -> Journey:
        """Return what was called."""
        found: dict[str, list[str]] = defaultdict(list)
        for code in self._codes:
            if Path(code.co_filename).is_relative_to(ROOT):
                path = Path(code.co_filename).relative_to(ROOT).as_posix()
                if path.split("/")[0] in PRODUCT:
                    found[path].append(code.co_qualname)
        return found

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or class
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing and not code.co_name.startswith("<"):
            self._codes[code] = None


def placed_pod() -> Journey:
    """From the event of a pod and its claim until the allocation is written and the gate is gone."""
    loop = WholeLoop(Settings())
    for number in range(4):
        loop.add_node(f"node-{number}")
    loop.start()
    _create(loop, "first", 1)
    loop.settle(60.0)
    _create(loop, "second", 2)
    trace = Trace()
    while loop.api.get(PODS, "second", NAMESPACE)["spec"].get("schedulingGates"):
        with trace:
            worked = loop.work()
        if not worked:
            raise RuntimeError("the pod gets no devices")
    return trace.journey()


def _create(loop: WholeLoop, name: str, cards: int) -> None:
    exactly = {"deviceClassName": CLASS, "count": cards}
    requests = [{"name": "cards", "exactly": exactly}]
    metadata = {"name": name, "namespace": NAMESPACE}
    loop.api.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": {"requests": requests}}})
    made = pod(name, name)
    gates = [{"name": NAMES.gate}]
    loop.api.create(PODS, {**made, "metadata": metadata, "spec": {**made["spec"], "schedulingGates": gates}})


def prepared_claim() -> Journey:
    """One NodePrepareResources of a whole card, until the CDI file is written."""
    plugin_node = PluginNode()
    plugin = plugin_node.plugin()
    for number in range(2):
        claim = plugin_node.claim(f"claim-{number}", [result(f"gpu-{number}")])
        with Trace() as trace:
            (answer,) = plugin.prepare([claim]).values()
        if not hasattr(answer, "devices"):
            raise RuntimeError(f"the claim is not prepared: {answer}")
    return trace.journey()


def simulated_pod() -> Journey:
    """``lode simulate`` of one pod on one node, in a process of its own."""
    called = [sys.executable, "-m", "benchmarks.journeys", SIMULATED]
    found: Journey = json.loads(subprocess.run(called, check=True, capture_output=True, cwd=ROOT).stdout)
    return found


def _simulate() -> Journey:
    from cli.__main__ import main as lode
    from cli.shipped import device_classes

    objects = [
        *slices("node-0", "a100x4"),
        node("node-0"),
        *device_classes(),
        template("cards"),
        pod("job", of="cards"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "objects.json")
        file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
        with Trace() as trace, contextlib.redirect_stdout(io.StringIO()) as printed:
            status = lode(["simulate", "-f", str(file)])
    if status:
        raise RuntimeError(f"the pod is not placed: {printed.getvalue()}")
    return trace.journey()


JOURNEYS: Mapping[str, Callable[[], Journey]] = {
    "a pod, from its event to the written allocation": placed_pod,
    "a prepare, until the CDI file is written": prepared_claim,
    "lode simulate of one pod": simulated_pod,
}


def report(journeys: Mapping[str, Journey], *, listed: bool) -> Iterator[str]:
    """Lines for people."""
    rows = [(name, str(len(one)), str(sum(map(len, one.values())))) for name, one in journeys.items()]
    yield lines(["journey", "files", "functions"], rows)
    for name, journey in journeys.items() if listed else ():
        yield f"\n{name}"
        for path, functions in journey.items():
            yield f"  {path} ({len(functions)}): {', '.join(functions)}"


def main() -> int:
    """Make the journeys and print how long they are."""
    parser = argparse.ArgumentParser("bench-journeys")
    parser.add_argument("--list", action="store_true", help="name the files and functions")
    parser.add_argument(SIMULATED, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.simulated:
        print(json.dumps(_simulate()))
        return 0
    configure_logs("error", "console")
    for line in report({name: make() for name, make in JOURNEYS.items()}, listed=arguments.list):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
