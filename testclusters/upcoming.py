"""Kubernetes before its first release: the newest version that the module proxy serves, release or not.

Some modules of such a version may not be served yet. For each of them that is known, `STAND_INS` says what takes its
place and why that is good enough. A stand-in is assembled in the cache from modules that are served, and only while
the module itself is not: no code of Kubernetes enters this repository.

The proxy is asked once a day. What it serves is written as a Go module of its own, `kubernetes-<minor>-served` in the
cache, with go.mod and go.sum; Go's checksum database vouches for everything that is downloaded.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache as once
from pathlib import Path
from typing import Any, Final

from testclusters import cache
from testclusters.gomodules import SOURCES, ProgramMissing, go_environment, go_version
from testclusters.progress import print_status, progress_step

TOOLCHAIN: Final = "go1.27.3+auto"
"""What Kubernetes 1.38 needs; `+auto`: a newer one if go.mod says so."""

STANDINS: Final = "standins"
"""The folder of the stand-ins beside go.mod, and that of our own files for them in `programs/`."""

_ROOTS = ("k8s.io/component-base", "k8s.io/kubectl")
"""What our main package imports of Kubernetes' staging modules, besides Kubernetes itself."""


@dataclass(frozen=True)
class StandIn:
    """What takes the place of a module that is not served: another version of it, or copied packages and our files."""

    module: str
    reason: str
    """What it is made of, and why the programs are the same for our tests."""
    version: str = ""
    """Another version of the module, which is served; `""`: one is assembled."""
    source: str = ""
    """The module and version whose packages are copied."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Copied folders, with the folders below them: where they are in `source`, and in the stand-in."""
    left_out: tuple[str, ...] = ()
    """Patterns of Go files that are not copied, besides tests."""
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """What the beginnings of import paths become."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Our own files: their names in `programs/standins`, and their folders in the stand-in."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Files of a line or two, by their paths in the stand-in."""

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return self.module.removesuffix("/v7").rpartition("/")[2]


STAND_INS: Final = (
    StandIn(
        "k8s.io/apiextensions-api",
        "new in 1.38: the types and clients of CustomResourceDefinitions, which were in apiextensions-apiserver. "
        "Files of 1.37 with other import paths; conversions stayed where they were",
        source="k8s.io/apiextensions-apiserver@v0.37.1",
        packages={
            folder: folder for folder in ("pkg/apis/apiextensions/v1", "pkg/apis/apiextensions/v1beta1", "pkg/client")
        },
        left_out=("conversion.go", "zz_generated.conversion.go"),
        written={
            f"pkg/apis/apiextensions/{version}/null.go": f'package {version}\n\nvar nullLiteral = []byte("null")\n'
            for version in ("v1", "v1beta1")
        },
        rewritten={
            "k8s.io/apiextensions-apiserver/": "k8s.io/apiextensions-api/",
            "sigs.k8s.io/structured-merge-diff/v6/": "sigs.k8s.io/structured-merge-diff/v7/",
        },
    ),
    StandIn(
        "k8s.io/ktesting",
        "new in 1.38; only tests import it, and `go mod tidy` wants its packages to exist",
        written={"empty.go": "package ktesting\n", "initoption/empty.go": "package initoption\n"},
    ),
    StandIn(
        "sigs.k8s.io/structured-merge-diff/v7",
        "the version before the one that is required, which compiles as well",
        version="v7.0.0",
    ),
    StandIn(
        "sigs.k8s.io/iptables-wrappers",
        "kube-proxy and the kubelet write their rules with it. The package of Kubernetes 1.37, from which it came, "
        "under an interface of ours that takes contexts",
        source="k8s.io/kubernetes@v1.37.1",
        packages={"pkg/util/iptables": "pkg/iptables/previous"},
        left_out=("testing/*",),
        own={"iptables.go": "pkg/iptables"},
        written={"pkg/iptables/testing/empty.go": "package testing\n"},
    ),
)
"""Every module of 1.38 that was found not to be served, the only place that names them."""


class NotServed(Exception):
    """The module proxy does not serve a module that is needed; the message says which, and what the go command said."""


@dataclass(frozen=True)
class Served:
    """A module to build: its folder, and those of the stand-ins in it."""

    folder: Path
    stand_ins: tuple[Path, ...]


@once
def newest_served(minor: str) -> Served:
    """The newest version of Kubernetes `minor`, such as 1.38, of which everything is served or has a stand-in.

    Releases come before candidates, and these before betas. Raises `ProgramMissing` if there is none; the message says
    for each version why not.
    """
    own = sorted((SOURCES / STANDINS).iterdir())
    today = datetime.now(UTC).date().isoformat()
    main = SOURCES / "kubernetes/main.go"
    key = cache.content_key(today, main, *own, Path(__file__), go_version(TOOLCHAIN))
    found = cache.cached_folder(f"kubernetes-{minor}-served", key, lambda folder: _assemble(minor, folder))
    folder = found / "kubernetes"
    return Served(folder, tuple(sorted((folder / STANDINS).iterdir())))


def newest_first(minor: str, versions: Sequence[str]) -> Sequence[str]:
    """Those of a minor version, newest first. `versions` are in the order of the go command, oldest first."""
    return [version for version in reversed(versions) if version.startswith(f"v{minor}.")]


@dataclass(frozen=True)
class Plan:
    """How a version can be built."""

    go_mod: str
    stand_ins: tuple[StandIn, ...]
    """Those that are needed."""


def plan_build(version: str, upstream: str, is_served: Callable[[str, str], bool]) -> Plan:
    """How to build a version of Kubernetes with that go.mod; `is_served` is asked about modules and their versions.

    The modules of its staging folder have the same minor version and patch.
    """
    staging = f"v0.{version.removeprefix('v1.')}"
    required = {match[1]: match[2] for match in re.finditer(r"^\t(\S+) (v\S+)", upstream, re.MULTILINE)}
    staged = re.findall(r"^\t(\S+) => \./staging/", upstream, re.MULTILINE)
    required |= dict.fromkeys(staged, staging)
    replaced = {module: f"{module} {staging}" for module in staged}
    needed = [one for one in STAND_INS if one.module in required and not is_served(one.module, required[one.module])]
    for one in needed:
        replaced[one.module] = f"{one.module} {one.version}" if one.version else f"./{STANDINS}/{one.folder}"
    ours = {
        "github.com/spf13/cobra": required["github.com/spf13/cobra"],
        "go.etcd.io/etcd/server/v3": required["go.etcd.io/etcd/client/v3"],
        "k8s.io/kubernetes": version,
        **dict.fromkeys(_ROOTS, staging),
    }
    (go,) = re.findall(r"^go (\S+)$", upstream, re.MULTILINE)
    return Plan(_module_file("lode.dev/tests/kubernetes", go, ours, replaced), tuple(needed))


def _assemble(minor: str, place: Path) -> None:
    with progress_step(f"asking the module proxy for Kubernetes {minor}"):
        listed = _go("list", "-m", "-versions", "-json", "k8s.io/kubernetes")
        if listed.returncode:
            raise ProgramMissing(f"the versions of k8s.io/kubernetes cannot be listed: {_end(listed.stderr)}")
        refused: list[str] = []
        for version in newest_first(minor, json.loads(listed.stdout).get("Versions", ())):
            cache.remove(place / "kubernetes")
            try:
                _write(version, place / "kubernetes")
            except NotServed as missing:
                refused.append(f"{version}: {missing}")
            else:
                print_status(f"    {version} is the newest of Kubernetes {minor} that is served")
                return
    raise ProgramMissing("\n".join([f"no version of Kubernetes {minor} can be built", *refused]))


def _write(version: str, folder: Path) -> None:
    """Write the module that builds this version."""
    upstream = Path(_downloaded(f"k8s.io/kubernetes@{version}")["GoMod"]).read_text()
    planned = plan_build(version, upstream, _is_served)
    (folder / STANDINS).mkdir(parents=True)
    shutil.copy(SOURCES / "kubernetes/main.go", folder)
    for stand_in in planned.stand_ins:
        print_status(f"    {stand_in.module} is not served, a stand-in is used: {stand_in.reason}")
        if not stand_in.version:
            _make(stand_in, folder / STANDINS / stand_in.folder)
    (folder / "go.mod").write_text(planned.go_mod)
    tidied = _go("mod", "tidy", folder=folder)
    if tidied.returncode:
        raise NotServed(_end(tidied.stderr))


def _is_served(module: str, version: str) -> bool:
    try:
        _downloaded(f"{module}@{version}")
    except NotServed:
        return False
    return True


def _make(stand_in: StandIn, folder: Path) -> None:
    """Assemble a stand-in in `folder`."""
    if stand_in.source:
        source = Path(_downloaded(stand_in.source)["Dir"])
        for inside, place in stand_in.packages.items():
            _copy(source / inside, folder / place, stand_in)
    for name, place in stand_in.own.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCES / STANDINS / name, folder / place)
    for name, text in stand_in.written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "go.mod").write_text(_module_file(stand_in.module, "1.27.0", {}, {}))


def _copy(source: Path, target: Path, stand_in: StandIn) -> None:
    for file in sorted(source.rglob("*.go")):
        if any(file.match(pattern) for pattern in ("*_test.go", "*_test/*", *stand_in.left_out)):
            continue
        text = file.read_text()
        for old, new in stand_in.rewritten.items():
            text = text.replace(f'"{old}', f'"{new}')
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)


def _module_file(module: str, go: str, required: Mapping[str, str], replaced: Mapping[str, str]) -> str:
    lines = [f"module {module}", f"go {go}"]
    lines += [f"require {name} {version}" for name, version in required.items()]
    lines += [f"replace {name} => {place}" for name, place in replaced.items()]
    return "\n".join([*lines, ""])


def _downloaded(module: str) -> Any:
    """What the go command says of a module of a version that it has downloaded, if need be."""
    done = _go("mod", "download", "-json", module)
    answer = json.loads(done.stdout) if done.stdout else {}
    if done.returncode:
        raise NotServed(_end(answer.get("Error") or done.stderr))
    return answer


def _go(*arguments: str, folder: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    environment = {**go_environment(TOOLCHAIN), "GOFLAGS": "-mod=mod"}
    return subprocess.run(["go", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _end(text: str, lines: int = 8) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
