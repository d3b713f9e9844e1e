"""The images that tests load onto nodes: the project's, a busybox for pods, the example driver for benchmarks, and a
vendor's device plugin.

They are archives that are assembled in the cache without a daemon or a registry. The project's image has a layer with
Debian's root file system, one with the locked dependencies and one with our wheel, each cached by its content, so that
a change of code costs seconds. With the machine's Docker daemon, the project's image is built from the Dockerfile
instead.
"""

import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from testclusters import cache, debian, oci, programs, progress
from testclusters.commands import run
from testclusters.daemon import Docker
from testclusters.gomodules import GoProgram, ProgramMissing

LODE = "lode-dra:dev"
PREVIOUS = "lode-dra:previous"
"""The project's image as of the commit before the current one."""
BUSYBOX = "lode-test/busybox:1"
EXAMPLE_DRIVER = "lode-test/dra-example-driver:1"
RDMA_DEVICE_PLUGIN = "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:latest"
"""The name that the plugin's manifests have; its program is built here."""

REFERENCES = {
    "lode": LODE,
    "lode-previous": PREVIOUS,
    "busybox": BUSYBOX,
    "example-driver": EXAMPLE_DRIVER,
    "rdma-device-plugin": RDMA_DEVICE_PLUGIN,
}
"""The references of the images, by the names that the command line uses."""

_ROOT = Path(__file__).parents[1]
_PYTHON = "3.11"  # what the Debian release has
_PACKAGES = ("python3", "ca-certificates", "libstdc++6")  # the last for grpcio
_USER = "65532:65532"  # the kubelet plugin's pod says that it runs as root
_SBOM = "usr/share/lode/sbom.cdx.json"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_MODULES = f"usr/local/lib/python{_PYTHON}/dist-packages"


def archive(reference: str) -> Path:
    """The archive of one of the images above, assembled if it is not in the cache; `KeyError` for any other image."""
    builders = {
        LODE: _lode,
        PREVIOUS: _previous,
        BUSYBOX: _busybox,
        EXAMPLE_DRIVER: _example_driver,
        RDMA_DEVICE_PLUGIN: _rdma_device_plugin,
    }
    return builders[reference]()


def previous_source() -> Path:
    """The files of the project as of the commit before the current one.

    Raises:
        CommandFailed: the project is not a clone with that commit.
    """
    commit = run(["git", "-C", _ROOT, "rev-parse", "HEAD~1"]).stdout.strip()

    def make(folder: Path) -> None:
        run(["git", "-C", _ROOT, "archive", "--output", folder / "source.tar", commit])
        run(["tar", "-xf", folder / "source.tar", "-C", folder])

    return cache.cached_folder("source", cache.content_key(commit), make)


def build_from_dockerfile(docker: Docker) -> bool:
    """Build the project's image from the Dockerfile; false if that fails, for example without a network."""
    with progress.progress_step(f"docker build of {LODE}"):
        built = docker.run("docker", "build", "--tag", LODE, _ROOT, check=False, timeout=1800)
    if built.returncode:
        progress.print_status(f"    docker build failed: {built.stderr.strip()[-200:]}")
    return built.returncode == 0


def busybox_layer() -> Path:
    """A layer with a static busybox and a link for each of its commands."""
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

    return cache.cached_folder("layer-busybox", cache.content_key(binary), make) / "layer.tar"


def _busybox_layers() -> list[Path]:
    return [busybox_layer()]


def _busybox() -> Path:
    config = {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]}
    return image("busybox", BUSYBOX, _busybox_layers(), config)


def _example_driver_layers() -> list[Path]:
    return [_program_layer(programs.EXAMPLE_DRIVER, "usr/bin/dra-example-kubeletplugin")]


def _program_layer(program: GoProgram, path: str, files: Mapping[str, str] | None = None) -> Path:
    """A layer with one program, and `files`, a mapping from a path to its content."""
    built = program.build()

    def make(folder: Path) -> None:
        with oci.Layer(folder / "layer.tar") as out:
            out.folder("tmp", 0o1777)
            out.file(path, built / Path(path).name)
            for name, content in (files or {}).items():
                out.file(name, content, 0o644)

    key = cache.content_key(built.name, path, repr(files))
    return cache.cached_folder(f"layer-{program.name}", key, make) / "layer.tar"


def _example_driver() -> Path:
    config = {"Entrypoint": ["/usr/bin/dra-example-kubeletplugin"]}
    return image("example-driver", EXAMPLE_DRIVER, _example_driver_layers(), config)


def _rdma_device_plugin_layers() -> list[Path]:
    # It does not start without names of PCI devices, which its own image has from a package.
    files = {"usr/share/hwdata/pci.ids": "15b3  Mellanox Technologies\n"}
    return [_program_layer(programs.RDMA_DEVICE_PLUGIN, "bin/k8s-rdma-shared-dp", files)]


def _rdma_device_plugin() -> Path:
    config = {"Cmd": ["/bin/k8s-rdma-shared-dp"]}
    return image("rdma-device-plugin", RDMA_DEVICE_PLUGIN, _rdma_device_plugin_layers(), config)


def _lode() -> Path:
    return image("lode", LODE, _lode_layers(_ROOT), _lode_config(_ROOT))


def _previous() -> Path:
    source = previous_source()
    return image("lode-previous", PREVIOUS, _lode_layers(source), _lode_config(source))


def _lode_config(source: Path) -> Mapping[str, object]:
    return {
        "Entrypoint": ["/usr/local/bin/lode"],
        "Env": [f"PATH={_PATH}", "PYTHONUNBUFFERED=1", "PYTHONFAULTHANDLER=1"],
        "User": _USER,
        "Labels": image_labels(source),
    }


def image_labels(source: Path = _ROOT) -> Mapping[str, str]:
    """The labels of the project's image, which the Dockerfile sets."""
    labels = re.search(r"^LABEL (.*?[^\\])$", (source / "Dockerfile").read_text(), re.MULTILINE | re.DOTALL)
    return dict(re.findall(r'([\w.]+)="(.*?)"', labels[1])) if labels else {}


def _component(package: debian.Package) -> Mapping[str, str]:
    """A Debian package as a component of CycloneDX; the package URL is of the type `deb` of the purl specification."""
    name, version = (quote(text, safe="") for text in (package.name, package.version))
    url = f"pkg:deb/debian/{name}@{version}?arch={package.architecture}&distro={debian.RELEASE}"
    return {"type": "library", "bom-ref": url, "name": package.name, "version": package.version, "purl": url}


def layer_sizes(reference: str) -> Mapping[str, int]:
    """The size in bytes of each layer of an image that is assembled here, uncompressed, by the layer's name.

    `KeyError` for an image that is none of those above.
    """
    layers = {
        LODE: lambda: _lode_layers(_ROOT),
        PREVIOUS: lambda: _lode_layers(previous_source()),
        BUSYBOX: _busybox_layers,
        EXAMPLE_DRIVER: _example_driver_layers,
        RDMA_DEVICE_PLUGIN: _rdma_device_plugin_layers,
    }[reference]()
    return {re.sub("-[0-9a-f]+$", "", path.parent.name): path.stat().st_size for path in layers}


def _lode_layers(source: Path) -> list[Path]:
    return [debian.layer("python", _PACKAGES), _dependencies(source), _code(source)]


def image(name: str, reference: str, layers: Sequence[Path], config: Mapping[str, object]) -> Path:
    """The archive of an image with these layers, assembled if it is not in the cache, where it has `name`."""

    def make(folder: Path) -> None:
        with progress.progress_step(f"assembling the image {reference}"):
            oci.write_archive(folder / "image.tar", [reference], layers, config)

    key = cache.content_key(reference, *(layer.parent.name for layer in layers), repr(config), Path(oci.__file__))
    return cache.cached_folder(f"image-{name}", key, make) / "image.tar"


def _dependencies(source: Path) -> Path:
    """The layer with the run-time dependencies that uv.lock lists."""
    platform = f"{os.uname().machine}-manylinux_2_36"  # the C library of the Debian release

    def make(folder: Path) -> None:
        with progress.progress_step("installing the locked dependencies"):
            locked = folder / "requirements.txt"
            _uv(source, "export", "--locked", "--no-dev", "--no-emit-project", "--quiet", "--output-file", locked)
            bill = software_bill(debian.installed((root / "var/lib/dpkg/status").read_text()), source)
            _install(folder, platform, ["--require-hashes", "--requirements", locked], files={_SBOM: bill})

    root = debian.root_filesystem("python", _PACKAGES)
    key = cache.content_key(source / "uv.lock", platform, _PYTHON, root.name, Path(oci.__file__), Path(__file__))
    return cache.cached_folder("layer-dependencies", key, make) / "layer.tar"


def software_bill(packages: Sequence[debian.Package], source: Path = _ROOT) -> str:
    """The locked dependencies of the image and its Debian packages as CycloneDX JSON.

    The time and the number of this very list are left out.
    """
    made = run(
        [_uv_program(), "--project", source, "export", "--locked", "--no-dev", "--format=cyclonedx1.5", "--quiet"]
    )
    bill = json.loads(made.stdout)
    bill.pop("serialNumber", None)
    bill["metadata"].pop("timestamp", None)
    bill["components"] += [_component(package) for package in packages]
    return json.dumps(bill, indent=1)


def build_context(source: Path = _ROOT) -> list[Path]:
    """The files and folders that .dockerignore lets `docker build` see; the image is built from these alone."""
    lines = (source / ".dockerignore").read_text().splitlines()
    return [source / line.removeprefix("!") for line in lines if line.startswith("!")]


def _code(source: Path) -> Path:
    """The layer with our wheel and its commands, built from what the Dockerfile builds it from."""
    scripts = tomllib.loads((source / "pyproject.toml").read_text())["project"]["scripts"]
    context = build_context(source)

    def make(folder: Path) -> None:
        with progress.progress_step("building the wheel"), tempfile.TemporaryDirectory() as temporary:
            copy, dist = Path(temporary, "source"), Path(temporary, "dist")
            _copy(context, copy)
            # With the locked hatchling of this Python's environment, as the Dockerfile does.
            options = ("--no-build-isolation", "--python", sys.executable)
            _uv(source, "build", "--wheel", "--quiet", *options, "--out-dir", dist, copy)
            _install(folder, "linux", ["--no-deps", *dist.glob("*.whl")], scripts)

    key = cache.content_key(*context, Path(__file__))
    return cache.cached_folder("layer-code", key, make) / "layer.tar"


def _copy(paths: Sequence[Path], target: Path) -> None:
    target.mkdir()
    for path in paths:
        if path.is_dir():
            shutil.copytree(path, target / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(path, target)


def _install(
    folder: Path,
    platform: str,
    requirements: Sequence[str | Path],
    scripts: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> None:
    """Write `layer.tar` with the wheels of `requirements` (arguments of `uv pip install`), compiled.

    The layer also gets the commands of `scripts`, a mapping from the name to `module:function`, and `files`, a mapping
    from a path to its content.
    """
    target = folder / "target"
    options: list[str | Path] = ["--target", target, "--python-version", _PYTHON, "--python-platform", platform]
    _uv(_ROOT, "pip", "install", "--quiet", "--no-build", "--link-mode=copy", *options, *requirements)
    shutil.rmtree(target / "bin", ignore_errors=True)  # these scripts name the Python that runs here
    for name in ("direct_url.json", "uv_cache.json", "RECORD"):  # they name the wheel's folder and time; pip needs them
        for file in target.glob(f"*.dist-info/{name}"):
            file.unlink()
    if sys.version_info[:2] == (3, 11):  # byte code is valid for one Python version only
        # No file names a time or the folder that it was built in, so that the layer is the same each time.
        paths: tuple[str | Path, ...] = ("-s", target, "-p", f"/{_MODULES}", target)
        command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", *paths]
        run(command, timeout=300)
    with oci.Layer(folder / "layer.tar") as out:
        out.tree(_MODULES, target)
        for name, content in (files or {}).items():
            out.file(name, content, 0o644)
        for name, entry in (scripts or {}).items():
            module, _, function = entry.partition(":")
            out.file(
                f"usr/local/bin/{name}",
                f"#!/usr/bin/python3\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n",
            )
    shutil.rmtree(target)


def _uv(source: Path, *arguments: str | Path) -> None:
    """Run uv in the project's files: the uv on PATH, else the one that the Makefile installs into the cache."""
    run([_uv_program(), "--project", source, "--directory", source, *arguments], timeout=900)


def _uv_program() -> Path:
    program = Path(shutil.which("uv") or cache.root() / "uv/bin/uv")
    if not program.exists():
        raise ProgramMissing("uv is not on PATH and not in the cache; any target of the Makefile installs it")
    return program
