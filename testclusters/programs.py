"""The programs of a cluster: built from the Go modules under `programs/`, or found on the machine.

A build's key covers its folder's files, its flags and the version of Go, so that it is made again exactly when it would
come out different.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from testclusters import cache

SOURCES = Path(__file__).parent / "programs"

KUBERNETES = ("1.37", "1.36")
"""The versions of Kubernetes the tests run on, newest first."""


def chosen_kubernetes() -> str:
    """The version that nobody has said anything about: `$LODE_KUBERNETES`, else the newest."""
    return os.environ.get("LODE_KUBERNETES", KUBERNETES[0])


CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
"""What a control plane without nodes consists of."""

_NAMES = (*CONTROL_PLANE, "kube-proxy", "kubeadm", "kubelet")


class ProgramMissing(Exception):
    """A program is neither on the machine nor can it be built; the message says what to do."""


@dataclass(frozen=True)
class Program:
    """One Go module of `programs/` and how it is built."""

    name: str
    folder: str
    package: str = "tool"
    """What to build: `tool` is every `tool` line of go.mod."""
    modfile: str = "go.mod"
    tags: str = ""
    module: str = ""
    """The module whose version goes into the binaries ..."""
    version_variables: tuple[str, ...] = ()
    """... under these names: `{version}`, `{major}` and `{minor}` are put in."""
    links: tuple[str, ...] = ()
    """Names under which the one binary acts."""

    @property
    def version(self) -> str:
        """The version of `module` that go.mod requires, such as `v1.37.1`."""
        found = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", self._mod.read_text(), re.MULTILINE)
        if not found:
            raise LookupError(f"{self._mod} does not require {self.module}")
        return found[1]

    @property
    def _mod(self) -> Path:
        return SOURCES / self.folder / self.modfile

    def build(self) -> Path:
        """The folder with the binaries, built if they are not in the cache.

        Raises `ProgramMissing` without Go, or when the build fails.
        """
        flags = ["-trimpath", f"-modfile={self.modfile}", f"-tags={self.tags}", f"-ldflags={self._ldflags()}"]
        sources = sorted((SOURCES / self.folder).glob("*.go"))
        key = cache.key(
            *sources,
            self._mod,
            self._mod.with_suffix(".sum"),
            " ".join(flags),
            self.package,
            " ".join(self.links),
            go_version(),
        )
        return cache.entry(self.name, key, lambda folder: self._compile(folder, flags))

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

        def progress() -> str:
            lines = log.read_text().splitlines()
            return f"{sum(not line.startswith('go: ') for line in lines)} packages compiled"

        with cache.step(f"building {self.name} (log: {log})", progress), log.open("w") as file:
            done = subprocess.run(
                command, cwd=SOURCES / self.folder, env=environment, stderr=file, stdin=subprocess.DEVNULL, check=False
            )
        if done.returncode:
            raise ProgramMissing(f"building {self.name} failed:\n" + "\n".join(log.read_text().splitlines()[-20:]))
        for link in self.links:
            (folder / link).symlink_to(self.folder)


def kubernetes(version: str = KUBERNETES[0]) -> Program:
    """Kubernetes of a minor version, one of `KUBERNETES`, with its etcd: one binary under many names."""
    if version not in KUBERNETES:
        raise ValueError(f"Kubernetes {version!r} is not one of {', '.join(KUBERNETES)}")
    component = "k8s.io/component-base/version"
    return Program(
        name=f"kubernetes-{version}",
        folder="kubernetes",
        package=".",
        modfile="go.mod" if version == KUBERNETES[0] else f"{version}.mod",
        module="k8s.io/kubernetes",
        version_variables=(
            f"{component}.gitVersion={{version}}",
            f"{component}.gitMajor={{major}}",
            f"{component}.gitMinor={{minor}}",
        ),
        links=_NAMES,
    )


CONTAINERS = Program(
    name="containers",
    folder="containers",
    tags="no_btrfs,no_devmapper,no_zfs",
    module="github.com/containerd/containerd/v2",
    version_variables=("github.com/containerd/containerd/v2/version.Version={version}",),
)
KIND = Program(name="kind", folder="kind")
EXAMPLE_DRIVER = Program(name="example-driver", folder="example-driver")


@once
def go_version() -> str:
    """What builds: such as `go1.26.8 linux/amd64`. Raises `ProgramMissing` where Go is not installed."""
    if not shutil.which("go"):
        raise ProgramMissing(
            "a test cluster's programs are built with Go: install it, or set KUBE_ASSETS to a folder that has them"
        )
    values = subprocess.run(
        ["go", "env", "GOVERSION", "GOOS", "GOARCH"], cwd="/", capture_output=True, text=True, check=True
    ).stdout.split()
    return "{} {}/{}".format(*values)


def control_plane(version: str = KUBERNETES[0]) -> Mapping[str, Path]:
    """The programs of `CONTROL_PLANE` by name, built unless the machine has them.

    They come from `$KUBE_ASSETS`, else `$KUBEBUILDER_ASSETS` or `PATH`, else the cache. A folder in `$KUBE_ASSETS` is
    taken whatever its version, and must have them all (`ProgramMissing`); what is found by the other two is taken if it
    is complete and of the wanted minor version.
    """
    if assets := os.environ.get("KUBE_ASSETS"):
        found = _found(assets)
        if absent := [name for name in CONTROL_PLANE if name not in found]:
            raise ProgramMissing(f"KUBE_ASSETS={assets} lacks {', '.join(absent)}")
        return found
    for path in (os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ.get("PATH", "")):
        found = _found(path)
        if len(found) == len(CONTROL_PLANE) and _says_version(found["kube-apiserver"], version):
            return found
    folder = kubernetes(version).build()
    return {name: folder / name for name in CONTROL_PLANE}


def _found(path: str) -> dict[str, Path]:
    return {name: Path(where).absolute() for name in CONTROL_PLANE if (where := shutil.which(name, path=path))}


def _says_version(apiserver: Path, minor: str) -> bool:
    done = subprocess.run([apiserver, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.startswith(f"Kubernetes v{minor}.")
