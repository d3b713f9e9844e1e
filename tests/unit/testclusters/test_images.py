"""The cluster image holds the programs and the command, and not the simulation."""

import tomllib
from pathlib import Path

from testclusters import build_context

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
