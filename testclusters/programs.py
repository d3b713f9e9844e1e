"""The programs of a cluster: built from the Go modules under `programs/`, or found on the machine.

The cache key of a build covers the Go files and go.mod and go.sum of its folder, its flags and the version of Go. So a
program is built again only when the result can differ.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from testclusters import cache, progress

SOURCES = Path(__file__).parent / "programs"

KUBERNETES_VERSIONS = ("1.37", "1.36")
"""The minor versions of Kubernetes that the tests run on, newest first."""


def default_kubernetes_version() -> str:
    """The version to use where none is given: `$LODE_KUBERNETES`, else the newest."""
    return os.environ.get("LODE_KUBERNETES", KUBERNETES_VERSIONS[0])


CONTROL_PLANE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
"""The programs of a control plane without nodes."""

ENVIRONMENT = {"GOGC": "400"}
"""What is set in the environment of Go programs: they collect garbage less often. It saves a sixth of their time, and
kube-apiserver takes 100 MiB more."""

_KUBERNETES_PROGRAMS = (*CONTROL_PLANE_PROGRAMS, "kube-proxy", "kubeadm", "kubelet")


class ProgramMissing(Exception):
    """A program is not on the machine and cannot be built; the message says what to do."""


@dataclass(frozen=True)
class GoProgram:
    """Programs that are built from one Go module of `programs/`."""

    name: str
    folder: str
    package: str = "tool"
    """The package to build; `tool` stands for every `tool` line of go.mod."""
    modfile: str = "go.mod"
    tags: str = ""
    module: str = ""
    """The module whose version is linked into the binaries; `""`: none."""
    version_variables: tuple[str, ...] = ()
    """Linker settings that take that version: `{version}`, `{major}` and `{minor}` are replaced."""
    links: tuple[str, ...] = ()
    """Names of symbolic links to the one binary, which acts by the name it is called by."""
    manifests: str = ""
    """A folder of `module` with manifests, which is copied beside the binaries; `""`: none."""

    @property
    def version(self) -> str:
        """The version of `module` that go.mod requires, such as `v1.37.1`; raises `LookupError` if it requires none."""
        required = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", self._mod.read_text(), re.MULTILINE)
        if not required:
            raise LookupError(f"{self._mod} does not require {self.module}")
        return required[1]

    @property
    def _mod(self) -> Path:
        return SOURCES / self.folder / self.modfile

    def build(self) -> Path:
        """The folder with the binaries, which are built if they are not in the cache.

        Raises `ProgramMissing` if Go is not installed or the build fails.
        """
        flags = ["-trimpath", f"-modfile={self.modfile}", f"-tags={self.tags}", f"-ldflags={self._ldflags()}"]
        sources = sorted((SOURCES / self.folder).glob("*.go"))
        key = cache.content_key(
            *sources,
            self._mod,
            self._mod.with_suffix(".sum"),
            " ".join(flags),
            self.package,
            " ".join(self.links),
            *filter(None, (self.manifests,)),
            go_version(),
        )
        return cache.cached_folder(self.name, key, lambda folder: self._compile(folder, flags))

    def _ldflags(self) -> str:
        if not self.module:
            return "-s -w"
        major, minor = self.version.removeprefix("v").split(".")[:2]
        values = (
            variable.format(version=self.version, major=major, minor=minor) for variable in self.version_variables
        )
        return " ".join(["-s -w", *(f"-X {value}" for value in values)])

    def _compile(self, folder: Path, flags: list[str]) -> None:
        log = cache.root() / f"{self.name}.log"
        output = folder / self.folder if self.links else folder
        command = ["go", "build", "-v", *flags, "-o", f"{output}{'' if self.links else '/'}", self.package]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}

        def packages_compiled() -> str:
            lines = log.read_text().splitlines()
            return f"{sum(not line.startswith('go: ') for line in lines)} packages compiled"

        with progress.progress_step(f"building {self.name} (log: {log})", packages_compiled), log.open("w") as file:
            done = subprocess.run(
                command, cwd=SOURCES / self.folder, env=environment, stderr=file, stdin=subprocess.DEVNULL, check=False
            )
        if done.returncode:
            raise ProgramMissing(f"building {self.name} failed:\n" + "\n".join(log.read_text().splitlines()[-20:]))
        for link in self.links:
            (folder / link).symlink_to(self.folder)
        if self.manifests:
            self._copy_manifests(folder / self.manifests, environment)

    def _copy_manifests(self, folder: Path, environment: Mapping[str, str]) -> None:
        command = ["go", "list", "-m", f"-modfile={self.modfile}", "-f={{.Dir}}", self.module]
        done = subprocess.run(
            command, cwd=SOURCES / self.folder, env=environment, capture_output=True, text=True, check=True
        )
        source = Path(done.stdout.strip(), self.manifests)
        for file in source.rglob("*.yaml"):  # without the modes of Go's cache, in which nothing can be removed
            copy = folder / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())


def kubernetes(version: str = KUBERNETES_VERSIONS[0]) -> GoProgram:
    """Kubernetes of a minor version with etcd, as one binary with many names.

    Raises `ValueError` if `version` is not one of `KUBERNETES_VERSIONS`.
    """
    if version not in KUBERNETES_VERSIONS:
        raise ValueError(f"Kubernetes {version!r} is not one of {', '.join(KUBERNETES_VERSIONS)}")
    component = "k8s.io/component-base/version"
    return GoProgram(
        name=f"kubernetes-{version}",
        folder="kubernetes",
        package=".",
        modfile="go.mod" if version == KUBERNETES_VERSIONS[0] else f"{version}.mod",
        module="k8s.io/kubernetes",
        version_variables=(
            f"{component}.gitVersion={{version}}",
            f"{component}.gitMajor={{major}}",
            f"{component}.gitMinor={{minor}}",
        ),
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
KARPENTER = GoProgram(name="karpenter", folder="karpenter", package=".")
KUEUE = GoProgram(name="kueue", folder="kueue", module="sigs.k8s.io/kueue", manifests="config")
JOBSET = GoProgram(name="jobset", folder="jobset", module="sigs.k8s.io/jobset", manifests="config")
CDI = GoProgram(name="cdi", folder="cdi", package=".")
RDMA_DEVICE_PLUGIN = GoProgram(
    name="rdma-device-plugin",
    folder="rdma-device-plugin",
    module="github.com/Mellanox/k8s-rdma-shared-dev-plugin",
    manifests="deployment",
)


def example_driver() -> Path:
    """The kubelet plugin of the Kubernetes example driver, which is built if it is not in the cache.

    Raises `ProgramMissing` if Go is not installed or the build fails.
    """
    return EXAMPLE_DRIVER.build() / "dra-example-kubeletplugin"


def karpenter_program() -> Path:
    """Karpenter with its KWOK provider, which is built if it is not in the cache; `crds` prints what it needs.

    Raises `ProgramMissing` if Go is not installed or the build fails.
    """
    return KARPENTER.build() / "karpenter"


def kueue_folder() -> Path:
    """Kueue, the program `kueue` with its manifests in `config`, which is built if it is not in the cache.

    Raises `ProgramMissing` if Go is not installed or the build fails.
    """
    return KUEUE.build()


def jobset_folder() -> Path:
    """JobSet, the program `jobset` with its manifests in `config`, which is built if it is not in the cache.

    Raises `ProgramMissing` if Go is not installed or the build fails.
    """
    return JOBSET.build()


def cdi_program() -> Path:
    """Prints what the CDI library of container runtimes gives to containers; built if it is not in the cache.

    Raises `ProgramMissing` if Go is not installed or the build fails.
    """
    return CDI.build() / "cdi"


def rdma_device_plugin_folder() -> Path:
    """The shared device plugin for RDMA, the program `k8s-rdma-shared-dp` with its manifests in `deployment`, which is
    built if it is not in the cache.

    Raises `ProgramMissing` if Go is not installed or the build fails.
    """
    return RDMA_DEVICE_PLUGIN.build()


def kubectl_program() -> Path:
    """The path of kubectl, found or built like the other programs of a control plane."""
    return control_plane_programs()["kubectl"]


def helm_program() -> Path:
    """The path of Helm 4: the one on PATH, else from the cache, where it is built if it is missing."""
    found = shutil.which("helm")
    if found:
        done = subprocess.run([found, "version", "--short"], capture_output=True, text=True, check=False)
        if done.stdout.startswith("v4."):
            return Path(found)
    return HELM.build() / "helm"


@once
def go_version() -> str:
    """The Go toolchain, such as `go1.26.8 linux/amd64`. Raises `ProgramMissing` if Go is not installed."""
    if not shutil.which("go"):
        raise ProgramMissing(
            "Go is not installed, and test clusters build their programs with it; "
            "install Go, or set KUBE_ASSETS to a folder with the programs"
        )
    values = subprocess.run(
        ["go", "env", "GOVERSION", "GOOS", "GOARCH"], cwd="/", capture_output=True, text=True, check=True
    ).stdout.split()
    return "{} {}/{}".format(*values)


def control_plane_programs(version: str = KUBERNETES_VERSIONS[0]) -> Mapping[str, Path]:
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
