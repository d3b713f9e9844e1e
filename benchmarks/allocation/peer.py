"""The peer: Kubernetes' own allocator in a small Go program, which is built into the cache of testclusters."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driver.wire import Json
from testclusters.cache import cached_folder, content_key
from testclusters.gomodules import go_version
from testclusters.progress import progress_step

SOURCES = Path(__file__).parent / "peer"

SCHEDULER: Json = {"workers": 16, "find": 0, "rotate": True}
"""As kube-scheduler runs it: in parallel over the nodes until enough nodes fit."""
FIRST_FIT: Json = {"workers": 1, "find": 1, "rotate": False}
"""The least work its code can do: one node after the other until one fits."""
TIMEOUT = 10.0
"""Seconds for each node (kube-scheduler's filterTimeout)."""


def build() -> Path:
    """The program, built if necessary.

    Raises `ProgramMissing` without Go, and `subprocess.CalledProcessError` if the build fails.
    """
    key = content_key(SOURCES, go_version())
    return cached_folder("allocation-peer", key, _compile) / "peer"


def _compile(folder: Path) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    with progress_step("building the peer"):
        subprocess.run(["go", "build", "-trimpath", "-o", f"{folder}/", "."], cwd=SOURCES, env=environment, check=True)


def ask(command: str, cluster: Path, requests: Sequence[Any]) -> list[Json]:
    """The peer's answers, one per entry of ``requests``; ``command`` is ``allocate`` or ``match``."""
    return answers([str(build()), command, str(cluster)], cluster.with_suffix(".peer"), requests)


def answers(command: Sequence[str], file: Path, requests: Sequence[Any]) -> list[Json]:
    """Write ``requests`` to ``file``, run the command on it, and read the lines of JSON it prints."""
    file.write_text(json.dumps(requests))
    done = subprocess.run([*command, str(file)], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
