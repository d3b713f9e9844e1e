"""The images that tests put on nodes: the project's own, a busybox for pods, and a driver that benchmarks compare with.

They are archives assembled in the cache without a daemon or a registry: Debian's root file system, then the locked
dependencies, then our wheel, each kept by its content, so that a change of code costs seconds. Where the machine's own
Docker is used, the project's image is built from the Dockerfile instead.
"""

import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from testclusters import cache, debian, oci, programs
from testclusters.commands import run
from testclusters.daemon import Docker

LODE = "lode-dra:dev"
BUSYBOX = "lode-test/busybox:1"
EXAMPLE_DRIVER = "lode-test/dra-example-driver:1"

NAMES = {"lode": LODE, "busybox": BUSYBOX, "example-driver": EXAMPLE_DRIVER}
"""The images by the names the command line knows them by."""

_ROOT = Path(__file__).parents[1]
_PYTHON = "3.11"  # what the Debian release has
_PACKAGES = ("python3", "ca-certificates", "libstdc++6")  # the last for grpcio
_PATH = "/usr/local/bin:/usr/bin:/bin"
_MODULES = f"usr/local/lib/python{_PYTHON}/dist-packages"


def archive(reference: str) -> Path:
    """The archive of one of the images above, assembled if need be; raises `KeyError` for any other."""
    makers = {LODE: _lode, BUSYBOX: _busybox, EXAMPLE_DRIVER: _example_driver}
    return makers[reference]()


def build(docker: Docker) -> bool:
    """Build the project's image from the Dockerfile; false if `docker` cannot, for want of its base or of a network."""
    with cache.step(f"docker build of {LODE}"):
        built = docker.run("docker", "build", "--tag", LODE, _ROOT, check=False, timeout=1800)
    if built.returncode:
        cache.say(f"    it failed: {built.stderr.strip()[-200:]}")
    return built.returncode == 0


def busybox_layer() -> Path:
    """A layer with a static busybox under all its names."""
    binary = debian.tools() / "bin/busybox"

    def make(folder: Path) -> None:
        with oci.Layer(folder / "layer.tar") as out:
            out.folder("tmp", 0o1777)
            out.file("etc/passwd", "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", 0o644)
            out.file("etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o644)
            out.file("bin/busybox", binary)
            for name in run([binary, "--list"]).stdout.split():
                if name != "busybox":
                    out.link(f"bin/{name}", "busybox")

    return cache.entry("layer-busybox", cache.key(binary), make) / "layer.tar"


def _busybox() -> Path:
    layer = busybox_layer()
    config = {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]}
    return _image("busybox", BUSYBOX, [layer], config)


def _example_driver() -> Path:
    program = programs.EXAMPLE_DRIVER.build()

    def make(folder: Path) -> None:
        with oci.Layer(folder / "layer.tar") as out:
            out.folder("tmp", 0o1777)
            out.file("usr/bin/dra-example-kubeletplugin", program / "dra-example-kubeletplugin")

    layer = cache.entry("layer-example-driver", cache.key(program.name), make) / "layer.tar"
    return _image("example-driver", EXAMPLE_DRIVER, [layer], {"Entrypoint": ["/usr/bin/dra-example-kubeletplugin"]})


def _lode() -> Path:
    layers = [debian.layer("python", _PACKAGES), _dependencies(), _code()]
    config = {"Entrypoint": ["/usr/local/bin/lode"], "Env": [f"PATH={_PATH}", "PYTHONUNBUFFERED=1"]}
    return _image("lode", LODE, layers, config)


def _image(name: str, reference: str, layers: Sequence[Path], config: Mapping[str, object]) -> Path:
    def make(folder: Path) -> None:
        with cache.step(f"assembling the image {reference}"):
            oci.write_archive(folder / "image.tar", [reference], layers, config)

    key = cache.key(reference, *(layer.parent.name for layer in layers), repr(config), Path(oci.__file__))
    return cache.entry(f"image-{name}", key, make) / "image.tar"


def _dependencies() -> Path:
    """The layer with what uv.lock says the project needs at run time."""
    platform = f"{os.uname().machine}-manylinux_2_36"  # the C library of the Debian release

    def make(folder: Path) -> None:
        with cache.step("installing the locked dependencies"):
            locked = folder / "requirements.txt"
            _uv("export", "--locked", "--no-dev", "--no-emit-project", "--quiet", "--output-file", locked)
            _install(folder, platform, ["--require-hashes", "--requirements", locked])

    return cache.entry("layer-dependencies", cache.key(_ROOT / "uv.lock", platform, _PYTHON), make) / "layer.tar"


def build_context() -> list[Path]:
    """The files and folders that .dockerignore lets `docker build` see; the image is built from these alone."""
    lines = (_ROOT / ".dockerignore").read_text().splitlines()
    return [_ROOT / line.removeprefix("!") for line in lines if line.startswith("!")]


def _code() -> Path:
    """The layer with our wheel and its commands, built from what the Dockerfile builds it from."""
    scripts = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    context = build_context()

    def make(folder: Path) -> None:
        with cache.step("building the wheel"), tempfile.TemporaryDirectory() as temporary:
            source, dist = Path(temporary, "source"), Path(temporary, "dist")
            _copy(context, source)
            _uv("build", "--wheel", "--quiet", "--out-dir", dist, source)
            _install(folder, "linux", ["--no-deps", *dist.glob("*.whl")], scripts)

    return cache.entry("layer-code", cache.key(*context, Path(__file__)), make) / "layer.tar"


def _copy(paths: Sequence[Path], target: Path) -> None:
    target.mkdir()
    for path in paths:
        if path.is_dir():
            shutil.copytree(path, target / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(path, target)


def _install(folder: Path, platform: str, what: Sequence[str | Path], scripts: dict[str, str] | None = None) -> None:
    """Write `layer.tar` with wheels, compiled, and with commands that call `scripts` (name to `module:function`)."""
    target = folder / "target"
    where: list[str | Path] = ["--target", target, "--python-version", _PYTHON, "--python-platform", platform]
    _uv("pip", "install", "--quiet", "--no-build", "--link-mode=copy", *where, *what)
    shutil.rmtree(target / "bin", ignore_errors=True)  # made for the Python that runs here
    if sys.version_info[:2] == (3, 11):  # byte code is good for one version only
        run([sys.executable, "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", target], timeout=300)
    with oci.Layer(folder / "layer.tar") as out:
        out.tree(_MODULES, target)
        for name, entry in (scripts or {}).items():
            module, _, function = entry.partition(":")
            out.file(
                f"usr/local/bin/{name}",
                f"#!/usr/bin/python3\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n",
            )
    shutil.rmtree(target)


def _uv(*arguments: str | Path) -> None:
    """Run uv in the project: the one on PATH, else the one that the Makefile puts into the cache."""
    program = shutil.which("uv") or cache.root() / "uv/bin/uv"
    if not Path(program).exists():
        raise programs.ProgramMissing("uv is needed on PATH, or in the cache, where any target of the Makefile puts it")
    run([program, "--project", _ROOT, "--directory", _ROOT, *arguments], timeout=900)
