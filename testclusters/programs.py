"""The programs of a cluster: built from the Go modules under `programs/`, or found on the machine."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from testclusters import upcoming
from testclusters.gomodules import GoProgram, ProgramMissing

UPCOMING = "1.38"
"""The minor version that has no release yet: its newest candidate that is served is built (`testclusters.upcoming`)."""

NEWEST = "1.37"
"""The newest minor version with a release, which is used where none is given."""

KUBERNETES_VERSIONS = (UPCOMING, NEWEST, "1.36")
"""The minor versions of Kubernetes that the tests run on, newest first."""


def default_kubernetes_version() -> str:
    """The version to use where none is given: `$LODE_KUBERNETES`, else `NEWEST`."""
    return os.environ.get("LODE_KUBERNETES", NEWEST)


CONTROL_PLANE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
"""The programs of a control plane without nodes."""

ENVIRONMENT = {"GOGC": "400"}
"""What is set in the environment of Go programs: they collect garbage less often. It saves a sixth of their time, and
kube-apiserver takes 100 MiB more."""

_KUBERNETES_VERSION_VARIABLES = tuple(
    f"k8s.io/component-base/version.git{name}={{{name.lower()}}}" for name in ("Version", "Major", "Minor")
)
_KUBERNETES_PROGRAMS = (*CONTROL_PLANE_PROGRAMS, "kube-proxy", "kubeadm", "kubelet")


def kubernetes(version: str = NEWEST) -> GoProgram:
    """Kubernetes of a minor version with etcd, as one binary with many names.

    Raises `ValueError` if `version` is not one of `KUBERNETES_VERSIONS`, and `ProgramMissing` if it is `UPCOMING` and
    not everything that it needs is served.
    """
    if version not in KUBERNETES_VERSIONS:
        raise ValueError(f"Kubernetes {version!r} is not one of {', '.join(KUBERNETES_VERSIONS)}")
    served = upcoming.newest_served(version) if version == UPCOMING else None
    return GoProgram(
        name=f"kubernetes-{version}",
        folder=str(served.folder) if served else "kubernetes",
        package=".",
        modfile="go.mod" if version in {UPCOMING, NEWEST} else f"{version}.mod",
        toolchain=upcoming.TOOLCHAIN if served else "",
        replaced=served.stand_ins if served else (),
        module="k8s.io/kubernetes",
        version_variables=_KUBERNETES_VERSION_VARIABLES,
        links=_KUBERNETES_PROGRAMS,
    )


CONTAINERS = GoProgram(
    name="containers",
    folder="containers",
    tags="no_btrfs,no_devmapper,no_zfs",
    module="github.com/containerd/containerd/v2",
    version_variables=("github.com/containerd/containerd/v2/version.Version={version}",),
)
KIND = GoProgram(name="kind", folder="kind")
HELM = GoProgram(name="helm", folder="helm")
EXAMPLE_DRIVER = GoProgram(name="example-driver", folder="example-driver")
"""The kubelet plugin of the Kubernetes example driver, `dra-example-kubeletplugin`."""
ETCDUTL = GoProgram(name="etcdutl", folder="etcdutl")
"""The program `etcdutl`, which restores snapshots of etcd."""
KARPENTER = GoProgram(name="karpenter", folder="karpenter", package=".")
"""The program `karpenter` with its KWOK provider; `crds` prints what it needs."""
KUEUE = GoProgram(name="kueue", folder="kueue", module="sigs.k8s.io/kueue", manifests="config")
"""The program `kueue` with its manifests in `config`."""
JOBSET = GoProgram(name="jobset", folder="jobset", module="sigs.k8s.io/jobset", manifests="config")
"""The program `jobset` with its manifests in `config`."""
CDI = GoProgram(name="cdi", folder="cdi", package=".")
"""The program `cdi` prints what the CDI library of container runtimes gives to containers."""
RDMA_DEVICE_PLUGIN = GoProgram(
    name="rdma-device-plugin",
    folder="rdma-device-plugin",
    module="github.com/Mellanox/k8s-rdma-shared-dev-plugin",
    manifests="deployment",
)
"""The shared device plugin for RDMA, the program `k8s-rdma-shared-dp`, with its manifests in `deployment`."""
KUBERNETES_SUITES = GoProgram(
    name="kubernetes-suites",
    folder="kubernetes-suites",
    module="k8s.io/kubernetes",
    version_variables=_KUBERNETES_VERSION_VARIABLES,
)
"""Kubernetes' own end-to-end tests, the program `e2e.test`, with `ginkgo`, which runs it, and the programs of its pods'
images."""


def kubectl_program() -> Path:
    """The path of kubectl, found or built like the other programs of a control plane."""
    return control_plane_programs(default_kubernetes_version())["kubectl"]


def helm_program() -> Path:
    """The path of Helm 4: the one on PATH, else from the cache, where it is built if it is missing."""
    found = shutil.which("helm")
    if found:
        done = subprocess.run([found, "version", "--short"], capture_output=True, text=True, check=False)
        if done.stdout.startswith("v4."):
            return Path(found)
    return HELM.build() / "helm"


def control_plane_programs(version: str = NEWEST) -> Mapping[str, Path]:
    """The paths of `CONTROL_PLANE_PROGRAMS` by name.

    They come from `$KUBE_ASSETS`, else from `$KUBEBUILDER_ASSETS`, else from `PATH`, else from the cache, where they
    are built if they are missing. A folder in `$KUBE_ASSETS` is used whatever its version; `ProgramMissing` is raised
    if it lacks one of the programs. The programs in `$KUBEBUILDER_ASSETS` or on `PATH` are used only if all are there
    and kube-apiserver has the minor version `version`.
    """
    if assets := os.environ.get("KUBE_ASSETS"):
        paths = _installed(assets)
        if missing := [name for name in CONTROL_PLANE_PROGRAMS if name not in paths]:
            raise ProgramMissing(f"KUBE_ASSETS lacks programs: {', '.join(missing)}; looked in {assets}")
        return paths
    for path in (os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ.get("PATH", "")):
        paths = _installed(path)
        if len(paths) == len(CONTROL_PLANE_PROGRAMS) and _has_version(paths["kube-apiserver"], version):
            return paths
    folder = kubernetes(version).build()
    return {name: folder / name for name in CONTROL_PLANE_PROGRAMS}


def _installed(path: str) -> dict[str, Path]:
    """Those programs that are in the folders of `path`, a list as in the variable PATH."""
    return {
        name: Path(program).absolute() for name in CONTROL_PLANE_PROGRAMS if (program := shutil.which(name, path=path))
    }


def _has_version(apiserver: Path, minor: str) -> bool:
    done = subprocess.run([apiserver, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.startswith(f"Kubernetes v{minor}.")
