"""What comes from Debian: tools that the machine lacks, and the root file systems of images.

Packages are taken apart below the cache, never installed, so that nothing of the machine changes and no service starts.
A cached entry is keyed by the names of its packages, not by their versions: an image keeps what its first build found.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from testclusters import cache
from testclusters.commands import run
from testclusters.programs import ProgramMissing

RELEASE = "bookworm"

_TOOLS = ("docker.io", "containerd", "runc", "tini", "iptables", "iproute2", "mmdebstrap", "busybox-static")
_MIRROR = "http://deb.debian.org/debian"
_UNREAD = ("doc", "man", "locale", "info", "lintian")
"""Folders of /usr/share that no program reads."""


def tools() -> Path:
    """A folder like `/` with Docker, runc, iptables, ip, mmdebstrap and busybox, and any library they lack here.

    Raises `ProgramMissing` where the machine has no apt.
    """
    return cache.entry("debian-tools", cache.key(Path("/etc/os-release"), *_TOOLS), _unpack_tools)


def environment() -> Mapping[str, str]:
    """The environment in which the programs of `tools` find one another, their libraries and their modules."""
    root = tools()
    folders = ("usr/local/sbin", "usr/sbin", "usr/bin", "sbin", "bin")
    libraries = [*root.glob("usr/lib/*-linux-gnu"), *root.glob("lib/*-linux-gnu")]
    return {
        **os.environ,
        "PATH": ":".join([*(str(root / folder) for folder in folders), os.environ.get("PATH", os.defpath)]),
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "XTABLES_LIBDIR": ":".join(map(str, root.glob("usr/lib/*-linux-gnu/xtables"))),
    }


def _unpack_tools(folder: Path) -> None:
    if not shutil.which("apt-get"):
        raise ProgramMissing("no Docker daemon answers, and this is no Debian machine: start a Docker daemon")
    archives = folder / "archives"
    (archives / "partial").mkdir(parents=True)
    with cache.step(f"fetching {', '.join(_TOOLS)} from Debian"):
        settings = (f"Dir::Cache::archives={archives}", "Debug::NoLocking=true", "APT::Sandbox::User=root")
        options = [word for setting in settings for word in ("-o", setting)]
        # --reinstall: also what is installed here, so that only libraries depend on what the machine has.
        how = ("-y", "--reinstall", "--download-only", "--no-install-recommends")
        fetch = ["apt-get", "install", *how, *options, *_TOOLS]
        if run(fetch, check=False, timeout=600).returncode:
            run(["apt-get", "update"], check=False, timeout=600)
            run(fetch, timeout=600)
        for archive in sorted(archives.glob("*.deb")):
            run(["dpkg", "-x", archive, folder])
    shutil.rmtree(archives)
    links = folder / "usr/local/sbin"
    links.mkdir(parents=True)
    for name in ("iptables", "ip6tables"):  # installing the package would make these
        for suffix in ("", "-save", "-restore"):
            (links / f"{name}{suffix}").symlink_to("../../sbin/xtables-nft-multi")


def root_filesystem(name: str, packages: Sequence[str]) -> Path:
    """A folder with a minimal Debian and `packages`, without documentation; made once per list of packages, by root."""
    key = cache.key(RELEASE, os.uname().machine, *sorted(packages))
    return cache.entry(f"root-{name}", key, lambda folder: _bootstrap(name, packages, folder))


def _bootstrap(name: str, packages: Sequence[str], folder: Path) -> None:
    folder.rmdir()  # mmdebstrap wants to make it
    with cache.step(f"making a Debian root file system for {name}"):
        excluded = [f"--dpkgopt=path-exclude=/usr/share/{unread}/*" for unread in _UNREAD]
        # A mount namespace of its own: whatever happens, nothing stays mounted below the folder.
        command = ["unshare", "--mount", "mmdebstrap", "--quiet", "--mode=root", "--variant=essential"]
        options = ["--aptopt=APT::Install-Recommends false", *excluded, f"--include={','.join(packages)}"]
        run([*command, *options, RELEASE, folder, *_sources()], timeout=1800, environment=environment())


def _sources() -> list[str]:
    """The machine's own package sources if they are of the release, as it may reach no others; else Debian's mirror."""
    candidates = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("debian*"))]
    own = [str(path) for path in candidates if path.exists() and f" {RELEASE}" in path.read_text()]
    return own or [_MIRROR]


def libraries(root: Path, programs: Sequence[str]) -> Mapping[str, Path]:
    """The shared libraries that `programs` load: their paths inside `root`, as are those of `programs`, and outside."""
    listed = run(["chroot", root, "ldd", *programs], check=False).stdout
    paths = sorted({word for word in listed.split() if word.startswith("/lib")})
    real = run(["chroot", root, "realpath", *paths]).stdout.split()
    return {path: root / target.lstrip("/") for path, target in zip(paths, real, strict=True)}


def layer(name: str, packages: Sequence[str]) -> Path:
    """The same root file system as an image layer, a tar file."""
    root = root_filesystem(name, packages)

    def pack(folder: Path) -> None:
        with cache.step(f"packing the root file system for {name}"):
            run(["tar", "-C", root, "-cf", folder / "layer.tar", *excludes(), "."], timeout=600)

    return cache.entry(f"layer-{name}", cache.key(root.name), pack) / "layer.tar"


def excludes() -> list[str]:
    """Options for tar that leave out of a root file system what no image should have."""
    caches = ("var/cache/apt/*", "var/lib/apt/lists/*")
    return [f"--exclude=./{path}" for path in ("dev/*", *caches, "etc/hostname", "etc/hosts", "etc/resolv.conf")]
