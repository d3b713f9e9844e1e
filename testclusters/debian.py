"""What comes from Debian packages: tools that the machine lacks, and the root file systems of images.

Packages are unpacked into the cache and never installed, so that the machine does not change and no service starts.
The key of a cached entry covers the names of its packages, not their versions: an entry keeps the versions of its first
build.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testclusters import cache, progress
from testclusters.commands import run
from testclusters.gomodules import ProgramMissing

RELEASE = "bookworm"

_TOOLS = ("docker.io", "containerd", "runc", "tini", "iptables", "iproute2", "mmdebstrap", "busybox-static")
_PROMETHEUS = ("prometheus",)
_MIRROR = "http://deb.debian.org/debian"
_EXCLUDED = ("doc", "man", "locale", "info", "lintian")
"""Folders of /usr/share that root file systems leave out: no program reads them."""


def tools() -> Path:
    """A folder laid out like `/` with Docker, runc, iptables, ip, mmdebstrap, busybox and the libraries they need.

    Raises `ProgramMissing` if the machine has no apt.
    """
    return cache.cached_folder("debian-tools", cache.content_key(Path("/etc/os-release"), *_TOOLS), _unpack_tools)


def environment() -> Mapping[str, str]:
    """The environment in which the programs of `tools` find each other, their libraries and their modules."""
    root = tools()
    folders = ("usr/local/sbin", "usr/sbin", "usr/bin", "sbin", "bin")
    libraries = [*root.glob("usr/lib/*-linux-gnu"), *root.glob("lib/*-linux-gnu")]
    return {
        **os.environ,
        "PATH": ":".join([*(str(root / folder) for folder in folders), os.environ.get("PATH", os.defpath)]),
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "XTABLES_LIBDIR": ":".join(map(str, root.glob("usr/lib/*-linux-gnu/xtables"))),
    }


def promtool() -> Path:
    """The path of Prometheus' `promtool`: the one on PATH, else Debian's.

    Raises `ProgramMissing` if the machine has no apt.
    """
    found = shutil.which("promtool")
    return Path(found) if found else prometheus() / "promtool"


def prometheus() -> Path:
    """The folder with Debian's `prometheus` and `promtool`.

    Raises `ProgramMissing` if the machine has no apt.
    """
    key = cache.content_key(Path("/etc/os-release"), *_PROMETHEUS)
    return cache.cached_folder("debian-prometheus", key, lambda folder: _unpack(folder, _PROMETHEUS)) / "usr/bin"


def _unpack_tools(folder: Path) -> None:
    _unpack(folder, _TOOLS)
    links = folder / "usr/local/sbin"
    links.mkdir(parents=True)
    for name in ("iptables", "ip6tables"):  # installing the package would create these links
        for suffix in ("", "-save", "-restore"):
            (links / f"{name}{suffix}").symlink_to("../../sbin/xtables-nft-multi")


def _unpack(folder: Path, packages: Sequence[str]) -> None:
    """Unpack the packages and what they depend on into the folder."""
    if not shutil.which("apt-get"):
        raise ProgramMissing(f"apt-get is not installed, which fetches {', '.join(packages)}; install them yourself")
    archives = folder / "archives"
    (archives / "partial").mkdir(parents=True)
    with progress.progress_step(f"fetching {', '.join(packages)} from Debian"):
        settings = (f"Dir::Cache::archives={archives}", "Debug::NoLocking=true", "APT::Sandbox::User=root")
        options = [word for setting in settings for word in ("-o", setting)]
        # --reinstall fetches tools that are installed, too, so that only libraries depend on what the machine has.
        flags = ("-y", "--reinstall", "--download-only", "--no-install-recommends")
        fetch = ["apt-get", "install", *flags, *options, *packages]
        if run(fetch, check=False, timeout=600).returncode:
            run(["apt-get", "update"], check=False, timeout=600)
            run(fetch, timeout=600)
        for archive in sorted(archives.glob("*.deb")):
            run(["dpkg", "-x", archive, folder])
    shutil.rmtree(archives)


def root_filesystem(name: str, packages: Sequence[str]) -> Path:
    """A folder with a minimal Debian and `packages`, without documentation.

    It is built once per list of packages and needs root.
    """
    key = cache.content_key(RELEASE, os.uname().machine, *sorted(packages))
    return cache.cached_folder(f"root-{name}", key, lambda folder: _bootstrap(name, packages, folder))


def _bootstrap(name: str, packages: Sequence[str], folder: Path) -> None:
    folder.rmdir()  # mmdebstrap creates the folder itself
    with progress.progress_step(f"building a Debian root file system for {name}"):
        excluded = [f"--dpkgopt=path-exclude=/usr/share/{path}/*" for path in _EXCLUDED]
        # In a separate mount namespace nothing stays mounted below the folder, however mmdebstrap ends.
        command = ["unshare", "--mount", "mmdebstrap", "--quiet", "--mode=root", "--variant=essential"]
        options = ["--aptopt=APT::Install-Recommends false", *excluded, f"--include={','.join(packages)}"]
        run([*command, *options, RELEASE, folder, *_sources()], timeout=1800, environment=environment())


def _sources() -> list[str]:
    """The machine's package sources of the release, because it may reach no others; without any, Debian's mirror."""
    candidates = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("debian*"))]
    configured = [str(path) for path in candidates if path.exists() and f" {RELEASE}" in path.read_text()]
    return configured or [_MIRROR]


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package."""

    name: str
    version: str
    architecture: str


def installed(status: str) -> list[Package]:
    """The installed packages that a file `var/lib/dpkg/status` lists, in its order."""
    found = []
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            found.append(Package(fields["Package"], fields["Version"], fields["Architecture"]))
    return found


def libraries(root: Path, programs: Sequence[str]) -> Mapping[str, Path]:
    """The shared libraries that `programs` load, as a mapping from the path inside `root` to the path outside.

    The paths of `programs` are those inside `root`.
    """
    listed = run(["chroot", root, "ldd", *programs], check=False).stdout
    paths = sorted({word for word in listed.split() if word.startswith("/lib")})
    real = run(["chroot", root, "realpath", *paths]).stdout.split()
    return {path: root / target.lstrip("/") for path, target in zip(paths, real, strict=True)}


def layer(name: str, packages: Sequence[str]) -> Path:
    """The root file system with `packages` as an image layer, a tar file."""
    root = root_filesystem(name, packages)

    times = ("--sort=name", "--mtime=@0", "--numeric-owner")

    def pack(folder: Path) -> None:
        with progress.progress_step(f"packing the root file system for {name}"):
            run(["tar", "-C", root, *times, "-cf", folder / "layer.tar", *excludes(), "."], timeout=600)

    return cache.cached_folder(f"layer-{name}", cache.content_key(root.name, *times), pack) / "layer.tar"


def excludes() -> list[str]:
    """Options for tar that exclude those parts of a root file system that an image must not have."""
    caches = ("var/cache/apt/*", "var/lib/apt/lists/*")
    return [f"--exclude=./{path}" for path in ("dev/*", *caches, "etc/hostname", "etc/hosts", "etc/resolv.conf")]
