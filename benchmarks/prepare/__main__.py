"""Time of prepare calls and memory of the kubelet plugin, beside the Kubernetes example driver (Go).

    make bench-prepare                                # 1,000 claims each, about two minutes
    make bench-prepare ARGS="--claims 200 --only lode"

Both plugins run as plain processes against one API server, on a node without a kubelet: this program registers them and
calls them over their sockets as a kubelet does. The claims are allocated already; each has one whole card of the eight
of the node, and all cards are in use. The plugins take turns, claim by claim. Their files are on the disk of the
temporary folder and their CDI specs in memory, as on a node. Between the two is the least that a plugin in Python does:
how much of our time is the language's.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from benchmarks.controlplane import NAMESPACE
from benchmarks.prepare import table
from benchmarks.prepare.drivers import (
    ACCOUNT,
    LEAST,
    NODE,
    OURS,
    PEER,
    Folders,
    Plugin,
    Program,
    least,
    lode,
    peer,
    running,
)
from benchmarks.prepare.measure import Figures, claims, measure
from driver.kube.api import NAMESPACES, NODES
from driver.kube.client import KubeClient
from testclusters.controlplane import ControlPlane

MEMORY_FOLDER = Path("/dev/shm")
PROGRAMS: dict[str, Callable[[ControlPlane, Folders], Program]] = {OURS: lode, LEAST: least, PEER: peer}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure both plugins and print the table. The status is 1 if ours misses a bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prepare", description=__doc__.partition("\n")[0])
    parser.add_argument("--claims", type=int, default=1000, help="for each plugin (%(default)s)")
    parser.add_argument("--only", default="", choices=["", *PROGRAMS], help="run one plugin only")
    arguments = parser.parse_args(argv)
    results = compare([name for name in PROGRAMS if arguments.only in ("", name)], arguments.claims)
    print(table.figures(results))
    return int(OURS in results and table.verdict(results) != "met")


def compare(names: Sequence[str], count: int) -> dict[str, Figures]:
    """Run the plugins of these names side by side, each with so many claims."""
    with ExitStack() as ending:
        plane = ending.enter_context(ControlPlane(components=()))
        api = KubeClient.from_environment(str(plane.kubeconfig()))
        ending.callback(api.close)
        plane.add_node(NODE)
        # What the kubelet that this program stands for says of itself.
        kubelet = {"nodeInfo": {"kubeletVersion": api.server_version()}}
        api.patch(NODES, NODE, {"status": kubelet}, subresource="status")
        plane.kubectl("create", "serviceaccount", ACCOUNT)
        rights = ("--clusterrole=cluster-admin", f"--serviceaccount=default:{ACCOUNT}")
        plane.kubectl("create", "clusterrolebinding", ACCOUNT, *rights)
        api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        plugins = [ending.enter_context(_started(plane, api, name, ending)) for name in names]
        print("==> creating claims", file=sys.stderr, flush=True)
        wanted = {plugin.name: claims(api, plugin, count) for plugin in plugins}
        print("==> preparing them", file=sys.stderr, flush=True)
        return measure(plugins, wanted)


def _started(plane: ControlPlane, api: KubeClient, name: str, ending: ExitStack) -> AbstractContextManager[Plugin]:
    memory = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    roots = [Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="lode-", dir=it))) for it in (None, memory)]
    folders = Folders(*roots)
    folders.registrations.mkdir()
    return running(plane, api, PROGRAMS[name](plane, folders), folders)


if __name__ == "__main__":
    sys.exit(main())
