"""The versions of the controller that a benchmark compares: this source tree, and the one of an earlier commit."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEFORE = "1e91279"
"""The last commit whose controller decides and writes in one thread, and reads whole lists."""


@dataclass(frozen=True)
class Version:
    """A source tree of the project: its manifests and its programs."""

    name: str
    root: Path

    def manifests(self, flavor: str) -> Path:
        """The folder that an operator installs for a flavor, such as ``controller-allocated``."""
        return self.root / "manifests" / flavor


CURRENT = Version("lode", ROOT)


@contextmanager
def at_commit(commit: str) -> Iterator[Version]:
    """The tree of a commit of this repository, in a temporary folder.

    Raises `RuntimeError` if git does not know the commit, as in a shallow clone.
    """
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit]
    packed = subprocess.run(command, capture_output=True, check=False)
    if packed.returncode:
        raise RuntimeError(
            f"cannot read commit {commit}: {packed.stderr.decode().strip()}; "
            'fetch the whole history, or skip the earlier version with --before ""'
        )
    with tempfile.TemporaryDirectory(prefix="lode-before-") as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Version(f"lode at {commit}", Path(folder))


def versions(before: str, ending: ExitStack) -> Iterator[Version]:
    """The version of the commit ``before``, unless it is "", and the current one.

    The tree of the earlier one exists until ``ending`` ends.
    """
    if before:
        yield ending.enter_context(at_commit(before))
    yield CURRENT
