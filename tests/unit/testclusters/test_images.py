"""The cluster image holds the programs and the command, and not the simulation; built twice, it is the same."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from testclusters.debian import installed
from testclusters.images import build_context, image_labels, software_bill
from testclusters.oci import Layer, write_archive
from testclusters.suiteimages import suite_image

ROOT = Path(__file__).parents[3]
IMAGE_PACKAGES = {"cli", "controller", "driver", "kubeletplugin", "memoryapi"}


def wheel_packages() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_the_image_is_built_from_every_package_of_the_wheel_but_the_simulation() -> None:
    context = {path.name for path in build_context()}
    assert wheel_packages() & context == IMAGE_PACKAGES
    assert wheel_packages() - context == {"simulation"}


def test_everything_the_image_is_built_from_exists() -> None:
    assert [path for path in build_context() if not path.exists()] == []


def test_the_build_context_has_all_files_that_go_into_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    files = {ROOT / path for path in (*included, project["project"]["readme"], "pyproject.toml", "uv.lock")}
    assert all(any(path.is_relative_to(given) for given in build_context()) for path in files)


def test_the_programs_run_without_what_only_the_command_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if name.startswith("kubernetes")]
    absent = "import sys; sys.modules['kubernetes'] = None; sys.modules['simulation'] = None"
    code = f"{absent}; import controller.__main__, kubeletplugin.__main__, cli.explain, cli.doctor, cli.inventory"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def image(folder: Path, time: int) -> bytes:
    """An image of one file that was written at `time`, built in `folder`."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name in ("b", "a"):
        (source / name).write_text(name)
        os.utime(source / name, (time, time))
    with Layer(folder / "layer.tar") as out:
        out.tree("opt", source)
    write_archive(folder / "image.tar", ["example:1"], [folder / "layer.tar"], {"Labels": {"a": "b"}})
    return (folder / "image.tar").read_bytes()


def test_an_image_depends_on_content_and_not_on_when_and_where_it_is_built(tmp_path: Path) -> None:
    assert image(tmp_path / "one", 10**9) == image(tmp_path / "two", 2 * 10**9)


def test_the_image_says_what_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = image_labels()
    assert labels["org.opencontainers.image.licenses"] == project["license"]
    assert labels["org.opencontainers.image.version"] == project["version"]


@pytest.mark.parametrize("instruction", ["ARG BASE=[^ ]+@sha256:[0-9a-f]{64}", "USER 65532:65532"])
def test_the_dockerfile_names_its_base_by_digest_and_a_user_that_is_not_root(instruction: str) -> None:
    assert re.search(f"^{instruction}$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_whatever_builds_the_image_is_pinned_with_its_hash() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "pip install --no-cache-dir --require-hashes --requirement requirements-uv.txt" in dockerfile
    assert "uv build --wheel --no-build-isolation --python /opt/build/bin/python3" in dockerfile
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["dependency-groups"]["build"] == project["build-system"]["requires"]
    locked = {it["name"]: it for it in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    assert all(wheel["hash"].startswith("sha256:") for wheel in locked["hatchling"]["wheels"])


STATUS = """Package: base-files
Status: install ok installed
Architecture: amd64
Version: 12.4+deb12u15
Conffiles:
 /etc/issue 349d61a0

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: tzdata
Status: install ok installed
Architecture: all
Version: 1:2025b-0
"""


def test_the_bill_of_software_lists_python_and_debian_packages() -> None:
    packages = installed(STATUS)
    assert [package.name for package in packages] == ["base-files", "tzdata"]
    components = {it["name"]: it for it in json.loads(software_bill(packages))["components"]}
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    versions = {package["name"]: package["version"] for package in locked if "version" in package}
    assert components["grpcio"]["version"] == versions["grpcio"]
    assert components["base-files"]["purl"] == ("pkg:deb/debian/base-files@12.4%2Bdeb12u15?arch=amd64&distro=bookworm")
    assert (components["tzdata"]["version"], "gone" in components) == ("1:2025b-0", False)


@pytest.mark.parametrize(
    "reference", ["gcr.io/k8s-authenticated-test/agnhost:2.6", "registry.k8s.io/e2e-test-images/nginx:1.28.0-2"]
)
def test_an_image_that_has_to_be_missing_or_has_no_source_here_is_not_built(reference: str) -> None:
    assert suite_image(reference) is None
