"""One start of the controller's program, and what it costs."""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import urllib3
import yaml

from benchmarks.memory.apiserver import LET_GO
from benchmarks.memory.sizes import Size
from benchmarks.processes import cpu_seconds, free_port, resident

START_SECONDS = 300.0
SETTLE_SECONDS = 15.0
"""From the moment the program has served its first pod until its memory counts as settled."""
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Start:
    """What one start costs. Memory in MiB, as the kernel counts it (VmHWM, VmRSS).

    Attributes:
        ready: seconds from the start of the process until it has placed the pod that waits.
        processor: the seconds of CPU that it used until then.
        longest: the longest time that ``/healthz`` took to answer, in seconds.
    """

    peak: float
    settled: float
    ready: float
    processor: float
    longest: float


def measure(program: Path, size: Size) -> Start:
    """Start ``python -m controller`` from the checkout ``program`` against a cluster of this size.

    Raises:
        RuntimeError: the program ended, or did not serve the waiting pod in time.
    """
    with tempfile.TemporaryDirectory() as folder, _api_server(size) as server:
        kubeconfig, settings = Path(folder) / "kubeconfig", Path(folder) / "settings.yaml"
        port = free_port()
        kubeconfig.write_text(_kubeconfig(server))
        settings.write_text(yaml.safe_dump(_settings(program, port)))
        command = [sys.executable, "-m", "controller", "--settings", str(settings), "--kubeconfig", str(kubeconfig)]
        started = time.monotonic()
        log = Path(folder) / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(command, cwd=program, stderr=errors)
        health = _Health(f"http://127.0.0.1:{port}/healthz")
        try:
            _wait_until_let_go(process, server, started, log)
            ready, processor = time.monotonic() - started, cpu_seconds(process.pid)
            time.sleep(SETTLE_SECONDS)
            memory = resident(process.pid)
            return Start(memory["VmHWM"], memory["VmRSS"], ready, processor, health.longest)
        finally:
            health.stop()
            process.kill()
            process.wait(timeout=30)


def _wait_until_let_go(process: "subprocess.Popen[bytes]", server: str, started: float, log: Path) -> None:
    http = urllib3.PoolManager(retries=False)
    while http.request("GET", server + LET_GO).data != b"true":
        if process.poll() is not None:
            raise RuntimeError(f"the controller ended with status {process.returncode}: {log.read_text()}")
        if time.monotonic() - started > START_SECONDS:
            raise RuntimeError(f"the waiting pod was not placed within {START_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


class _Health:
    """Asks for the health of a program again and again, and remembers how long the slowest answer took."""

    def __init__(self, url: str):
        self.longest = 0.0
        self._url = url
        self._stopped = threading.Event()
        threading.Thread(target=self._ask, daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped.set()

    def _ask(self) -> None:
        http = urllib3.PoolManager(retries=False, timeout=START_SECONDS)
        served = False
        while not self._stopped.wait(_POLL_SECONDS):
            asked = time.monotonic()
            try:
                status = http.request("GET", self._url).status
            except urllib3.exceptions.HTTPError:
                if served and not self._stopped.is_set():
                    self.longest = float("inf")
                continue
            served = True
            took = time.monotonic() - asked
            self.longest = max(self.longest, took if status == 200 else float("inf"))


@contextmanager
def _api_server(size: Size) -> Iterator[str]:
    """The address of an API server with the objects of the cluster."""
    command = [sys.executable, "-m", "benchmarks.memory.apiserver", size.name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait(timeout=30)


def _kubeconfig(server: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "benchmark",
            "contexts": [{"name": "benchmark", "context": {"cluster": "benchmark", "user": "benchmark"}}],
            "clusters": [{"name": "benchmark", "cluster": {"server": server}}],
            "users": [{"name": "benchmark", "user": {"token": "none"}}],
        }
    )


def _settings(program: Path, port: int) -> dict[str, object]:
    """Settings that the program at this path has; an unknown one would be an error."""
    # On a busy machine a lease of the usual length may lapse.
    section: dict[str, object] = {"leaseSeconds": 120}
    known = (program / "driver" / "settings.py").read_text()
    if "debug_address" in known:
        section["debugAddress"] = ""
    if "verify_policies" in known:
        section["verifyPolicies"] = False
    return {"observeAddress": f"127.0.0.1:{port}", "logLevel": "warning", "controller": section}
