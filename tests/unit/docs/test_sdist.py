"""The source distribution has what the wheel is built from and what its page links to, and nothing of the tests."""

import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_source_distribution_has_the_packages_and_no_tests(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], cwd=ROOT, check=True, timeout=120
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        found = {Path(name).parts[1] for name in packed.getnames()}
    packages = {"driver", "controller", "kubeletplugin", "memoryapi", "cli", "simulation", "manifests"}
    pages = {"README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore"}
    assert found == packages | pages
