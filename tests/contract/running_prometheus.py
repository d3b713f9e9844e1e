"""A real Prometheus for tests."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from testclusters.debian import prometheus
from tests.contract.conftest import needed


@contextmanager
def running_prometheus(folder: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """A Prometheus with its data in ``folder/data``, until the block ends; its URL."""
    with needed():
        programs = prometheus()
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    argv: list[str | Path] = [
        programs / "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as running:
        try:
            _await_ready(address, folder / "log")
            yield f"http://{address}"
        finally:
            running.terminate()


def _await_ready(address: str, log: Path) -> None:
    """Wait until it serves, up to a minute."""
    for _ in range(600):
        try:
            with urlopen(f"http://{address}/-/ready", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"Prometheus does not serve: {log.read_text()}")


def asked(url: str, path: str, **parameters: str) -> Any:
    """The ``data`` of an answer of its API."""
    with urlopen(f"{url}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
        return json.load(answer)["data"]
