"""The drivers that are compared: Lode in both flavors, and the Kubernetes example driver with kube-scheduler."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testclusters.kind import KindCluster

MANIFESTS = Path(__file__).parent.parent / "manifests"
NAMESPACE = "bench"
PEER_MANIFEST = Path(__file__).parent / "example-driver.yaml"
PEER = "gpu.example.com"


@dataclass(frozen=True)
class Contender:
    """A driver as a user installs it, and the DeviceClass that its pods request.

    ``programs`` lists the programs whose memory is measured: a label and a command line (as ``pgrep -f`` matches it).
    """

    name: str
    device_class: str
    install: Callable[[KindCluster], None]
    remove: Callable[[KindCluster], None]
    programs: tuple[tuple[str, str], ...]


def _overlay(name: str) -> tuple[Callable[[KindCluster], None], Callable[[KindCluster], None]]:
    path = str(MANIFESTS / name)

    def install(cluster: KindCluster) -> None:
        cluster.kubectl("apply", "-k", path)
        cluster.kubectl(
            "-n", "lode-plugin", "rollout", "status", "ds/lode-kubeletplugin", "--timeout=120s", timeout=130
        )
        if name == "kind":
            cluster.kubectl(
                "-n", "lode-system", "rollout", "status", "deploy/lode-controller", "--timeout=120s", timeout=130
            )

    def remove(cluster: KindCluster) -> None:
        cluster.kubectl("delete", "-k", path, "--ignore-not-found", "--timeout=100s", timeout=130)
        cluster.kubectl("delete", "resourceslices", "--all")

    return install, remove


def _install_peer(cluster: KindCluster) -> None:
    cluster.kubectl("apply", "-f", PEER_MANIFEST)
    cluster.kubectl("-n", "kube-system", "rollout", "status", "ds/dra-example", "--timeout=120s", timeout=130)


def _remove_peer(cluster: KindCluster) -> None:
    cluster.kubectl("delete", "-f", PEER_MANIFEST, "--ignore-not-found", timeout=100)
    cluster.kubectl("delete", "resourceslices", "--all")


CONTROLLER = ("lode controller", "lode controller")
PLUGIN = ("lode kubeletplugin", "lode kubeletplugin")

CONTENDERS = (
    Contender("lode, controller allocates", "gpu.lode.dev", *_overlay("kind"), (PLUGIN, CONTROLLER)),
    Contender("lode, kube-scheduler allocates", "gpu.lode.dev", *_overlay("kind-scheduler-allocated"), (PLUGIN,)),
    Contender(
        "example driver, kube-scheduler allocates",
        PEER,
        _install_peer,
        _remove_peer,
        (("dra-example-kubeletplugin", "dra-example-kubeletplugin"),),
    ),
)
