"""Plays suites on a kind cluster, first as it is and then with Lode."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testclusters.kind import KindCluster
from testclusters.programs import KUBERNETES_SUITES
from testclusters.progress import progress_step
from tests.e2e import flavors
from tests.e2e.apiserver import api_server
from tests.e2e.client import Client, eventually
from tests.e2e.hardware.machines import CardMachine
from tests.suites import accelerators, kubernetes
from tests.suites.outcomes import Comparison, NotPlayed, Outcomes

ACCELERATORS: Final = "accelerators"
SUITES: Final = (*kubernetes.SUITES, ACCELERATORS)
"""The names of all suites."""
_WITH_CARDS = Path(__file__).parent / "overlay"


@dataclass(frozen=True)
class Played:
    """What came of the suites."""

    comparisons: Sequence[Comparison]
    accelerators: Outcomes
    """Of the tests of AI conformance, which need Lode; empty if they were not played."""
    missing_images: Sequence[str]
    """What pods of Kubernetes' tests have that cannot be built here."""


@dataclass(frozen=True)
class Chosen:
    """What is played, and how."""

    suites: Sequence[str]
    """Of `SUITES`."""
    results: Path
    """The folder that keeps reports and logs, in ``without`` and ``with``."""
    processes: int
    """How many tests run at once."""
    focus: str = ""
    """A regular expression: only Kubernetes' tests whose names match it are played."""


def play(cluster: KindCluster, chosen: Chosen) -> Played:
    """Play the suites that are chosen.

    Raises:
        NotPlayed: the cluster has another version than the tests, or has Lode already; or no test was played.
    """
    source = accelerators.checkout() if ACCELERATORS in chosen.suites else None
    of_kubernetes = [name for name in chosen.suites if name in kubernetes.SUITES]
    comparisons: list[Comparison] = []
    missing: Sequence[str] = ()
    with api_server(cluster) as api:
        client = Client(cluster, api)
        if of_kubernetes:
            _check(client)
            tests = kubernetes.provided(cluster, chosen.processes)
            missing = tests.load_images()
            runs = []
            for folder in ("without", "with"):
                if folder == "with":
                    _install(client)
                at = chosen.results / folder
                runs.append({name: tests.play(name, at, focus=chosen.focus) for name in of_kubernetes})
            comparisons = [Comparison(name, *(run[name] for run in runs)) for name in of_kubernetes]
        found: Outcomes = {}
        if source:
            with _cards(client):
                found = accelerators.play(cluster, source, chosen.results / "with")
    return Played(comparisons, found, missing)


def _check(client: Client) -> None:
    wanted = ".".join(KUBERNETES_SUITES.version.removeprefix("v").split(".")[:2])
    if client.cluster.kubernetes != wanted:
        raise NotPlayed(
            f"the cluster runs Kubernetes {client.cluster.kubernetes}, and testclusters/programs/kubernetes-suites has "
            f"the tests of {wanted}: set KUBERNETES={wanted}"
        )
    if any(it["metadata"]["name"].startswith("lode-") for it in client.list("namespaces")):
        raise NotPlayed(
            f"the cluster {client.cluster.name} has Lode already: remove it (python -m testclusters kind down)"
        )


def _install(client: Client) -> None:
    with progress_step("installing Lode"):
        client.cluster.load_image("lode-dra:dev")
        flavors.install(client, flavors.CONTROLLER_ALLOCATED)


@contextmanager
def _cards(client: Client) -> Iterator[None]:
    """Lode on a worker that has cards of NVIDIA, with the classes of NVIDIA's DRA driver."""
    machine = CardMachine.nvidia(client.cluster, client.cluster.workers[0])
    with progress_step("installing Lode on a worker with cards"):
        client.cluster.load_image("lode-dra:dev")
        machine.load_driver()
        flavors.install(client, _WITH_CARDS)
        eventually("its cards are published", lambda: len(_gpus(client, machine.node)) == machine.cards)
    try:
        yield
    finally:
        flavors.install(client, flavors.CONTROLLER_ALLOCATED, _WITH_CARDS)
        machine.remove()


def _gpus(client: Client, node: str) -> set[str]:
    """The names of the whole cards that a node offers by NVIDIA's names."""
    slices = client.list("resourceslices", fields=f"spec.nodeName={node}")
    devices = [device for it in slices for device in it["spec"].get("devices", ())]
    of_nvidia = [it for it in devices if it["attributes"].get("gpu.nvidia.com/type") == {"string": "gpu"}]
    return {it["name"] for it in of_nvidia if it["attributes"]["kind"] == {"string": "gpu"}}  # and no share of a card


def fresh(results: Path) -> Path:
    """The absolute path of the folder of results, which is empty."""
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    return results.resolve()
