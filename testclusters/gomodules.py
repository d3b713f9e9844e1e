"""Programs that are built from the Go modules under `programs/`.

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


class ProgramMissing(Exception):
    """A program is not on the machine and cannot be built; the message says what to do."""


@dataclass(frozen=True)
class GoProgram:
    """Programs that are built from one Go module of `programs/`."""

    name: str
    folder: str
    """The module's folder in `programs/`, or an absolute path."""
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
    toolchain: str = ""
    """The Go toolchain that the module needs, as in GOTOOLCHAIN; `""`: the machine's."""
    replaced: tuple[Path, ...] = ()
    """Folders of modules that go.mod replaces, whose content no go.sum covers."""

    @property
    def version(self) -> str:
        """The version of `module` that go.mod requires, such as `v1.37.1`; raises `LookupError` if it requires none."""
        required = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", self._mod.read_text(), re.MULTILINE)
        if not required:
            raise LookupError(f"{self._mod} does not require {self.module}")
        return required[1]

    @property
    def _mod(self) -> Path:
        return self._sources / self.modfile

    @property
    def _sources(self) -> Path:
        return SOURCES / self.folder

    def build(self) -> Path:
        """The folder with the binaries, which are built if they are not in the cache.

        Raises `ProgramMissing` if Go is not installed or the build fails.
        """
        flags = ["-trimpath", f"-modfile={self.modfile}", f"-tags={self.tags}", f"-ldflags={self._ldflags()}"]
        # What -w leaves out of the binaries is not made either: six per cent of the time.
        flags.append("-gcflags=all=-dwarf=false")
        sources = sorted((*self._sources.glob("*.go"), *self._sources.glob("*/*.go")))
        key = cache.content_key(
            *sources,
            self._mod,
            self._mod.with_suffix(".sum"),
            " ".join(flags),
            self.package,
            " ".join(self.links),
            *filter(None, (self.manifests,)),
            *self.replaced,
            go_version(self.toolchain),
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
        binary = self._sources.name
        output = folder / binary if self.links else folder
        command = ["go", "build", "-v", *flags, "-o", f"{output}{'' if self.links else '/'}", self.package]
        environment = go_environment(self.toolchain)

        def packages_compiled() -> str:
            lines = log.read_text().splitlines()
            return f"{sum(not line.startswith('go: ') for line in lines)} packages compiled"

        with progress.progress_step(f"building {self.name} (log: {log})", packages_compiled), log.open("w") as file:
            done = subprocess.run(
                command, cwd=self._sources, env=environment, stderr=file, stdin=subprocess.DEVNULL, check=False
            )
        if done.returncode:
            raise ProgramMissing(f"building {self.name} failed:\n" + "\n".join(log.read_text().splitlines()[-20:]))
        for link in self.links:
            (folder / link).symlink_to(binary)
        if self.manifests:
            self._copy_manifests(folder / self.manifests, environment)

    def _copy_manifests(self, folder: Path, environment: Mapping[str, str]) -> None:
        command = ["go", "list", "-m", f"-modfile={self.modfile}", "-f={{.Dir}}", self.module]
        done = subprocess.run(command, cwd=self._sources, env=environment, capture_output=True, text=True, check=True)
        source = Path(done.stdout.strip(), self.manifests)
        for file in source.rglob("*.yaml"):  # without the modes of Go's cache, in which nothing can be removed
            copy = folder / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())


def go_environment(toolchain: str = "") -> Mapping[str, str]:
    """The environment of the go command, with that toolchain instead of the machine's own; `""`: the machine's."""
    chosen = {"GOTOOLCHAIN": toolchain} if toolchain else {}
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off", **chosen}


@once
def go_version(toolchain: str = "") -> str:
    """The Go toolchain, such as `go1.26.8 linux/amd64`; the go command loads `toolchain` if the machine lacks it.

    Raises `ProgramMissing` if Go is not installed, or the toolchain cannot be had.
    """
    if not shutil.which("go"):
        raise ProgramMissing(
            "Go is not installed, and test clusters build their programs with it; "
            "install Go, or set KUBE_ASSETS to a folder with the programs"
        )
    command = ["go", "env", "GOVERSION", "GOOS", "GOARCH"]
    done = subprocess.run(command, cwd="/", env=go_environment(toolchain), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProgramMissing(f"the Go toolchain {toolchain or 'of this machine'} cannot be used: {done.stderr.strip()}")
    return "{} {}/{}".format(*done.stdout.split())
