"""The kubelet plugins that are compared, as processes with a kubelet's folders of their own."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from benchmarks.controlplane import wait_until
from benchmarks.processes import free_port
from driver.kube.api import RESOURCE_SLICES, Api
from driver.names import DEFAULT_DRIVER
from simulation.kubernetes.plugin_client import PluginClient
from testclusters.cache import cached_folder, content_key
from testclusters.commands import start_process
from testclusters.controlplane import ControlPlane
from testclusters.programs import EXAMPLE_DRIVER

ROOT = Path(__file__).parents[2]
NODE = "bench-node"
ACCOUNT = "bench"
"""The service account of our plugin, in the namespace default."""
CARDS = 8
OURS, LEAST, PEER = "lode", "least in Python", "example driver"
_LEAST_DRIVER = "least.example.com"
_WHOLE_CARD = re.compile(r"gpu-\d+")
_STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Folders:
    """Where a plugin keeps its files: below the kubelet's root on a disk, and CDI specs in memory, as on a node."""

    kubelet: Path
    cdi: Path

    @property
    def registrations(self) -> Path:
        """Where the kubelet looks for plugins."""
        return self.kubelet / "plugins_registry"


@dataclass(frozen=True)
class Program:
    """A kubelet plugin.

    Attributes:
        arguments: the command line.
        environment: what is set in addition to the environment of the benchmark.
    """

    name: str
    driver: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Plugin:
    """A plugin that runs, is registered, and has published its devices.

    Attributes:
        kubelet: calls it as a kubelet does.
        devices: the pool and the name of each whole card.
    """

    name: str
    driver: str
    pid: int
    kubelet: PluginClient
    devices: Sequence[tuple[str, str]]


def lode(plane: ControlPlane, folders: Folders) -> Program:
    """Our plugin as in its pod: with the dependencies of the image, the environment and settings of the manifests, and
    eight simulated cards, with everything offered."""
    section = {
        "hardware": "simulated",
        "profile": "h100x8",
        "simulatedFaults": "",
        "simulatedState": str(folders.kubelet / "simulated.json"),
        "kubeletRoot": str(folders.kubelet),
        "cdiRoot": str(folders.cdi),
    }
    settings = folders.kubelet / "settings.yaml"
    settings.write_text(json.dumps({"observeAddress": f"127.0.0.1:{free_port()}", "kubeletplugin": section}))
    return _in_python(
        OURS,
        DEFAULT_DRIVER,
        module="benchmarks.prepare.inpod",
        arguments=[str(settings), NODE],
        plane=plane,
        folders=folders,
    )


def least(plane: ControlPlane, folders: Folders) -> Program:
    """The least that a plugin in Python does, with as many cards."""
    arguments = [_LEAST_DRIVER, str(CARDS), NODE, str(folders.kubelet), str(folders.cdi)]
    return _in_python(
        LEAST, _LEAST_DRIVER, module="benchmarks.prepare.least", arguments=arguments, plane=plane, folders=folders
    )


def _in_python(
    name: str, driver: str, module: str, arguments: Sequence[str], plane: ControlPlane, folders: Folders
) -> Program:
    """A module that is run as in our plugin's pod; its last argument is the folder of the service account."""
    account = folders.kubelet / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(plane.kubectl("create", "token", ACCOUNT).stdout)
    authority = json.loads(plane.kubeconfig().read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
    (account / "ca.crt").write_bytes(base64.b64decode(authority))
    server = urlsplit(plane.server)
    python = str(_python())
    environment = {
        **_environment_of_pod(),
        "PYTHONPATH": str(_code(python, folders.kubelet / "code")),
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    return Program(name, driver, [python, "-P", "-m", module, *arguments, str(account)], environment)


def _code(python: str, folder: Path) -> Path:
    """A copy of the plugin's code with bytecode, as in the image: to compile takes memory that stays."""
    for package in ("benchmarks", "driver", "kubeletplugin"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([python, "-m", "compileall", "-q", str(folder)], check=True)
    return folder


def _environment_of_pod() -> dict[str, str]:
    """The variables that the manifest sets to constants."""
    manifests = yaml.safe_load_all((ROOT / "manifests/base/kubeletplugin.yaml").read_text())
    (daemon_set,) = [manifest for manifest in manifests if manifest["kind"] == "DaemonSet"]
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def _python() -> Path:
    """A Python with what the image has: the locked dependencies, without those for development."""

    def make(folder: Path) -> None:
        command = ["uv", "sync", "--locked", "--no-dev", "--no-install-project", "--compile-bytecode", "--quiet"]
        command += ["--project", str(ROOT), "--python", sys.executable]
        subprocess.run(command, env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder / "venv")}, check=True)

    key = content_key(ROOT / "uv.lock", sys.version, "bytecode")
    return cached_folder("plugin-venv", key, make) / "venv/bin/python"


def peer(plane: ControlPlane, folders: Folders) -> Program:
    """The Kubernetes example driver with eight devices. Its limit of five calls of the API a second is lifted."""
    flags = {
        "kubeconfig": plane.kubeconfig(),
        "kube-api-qps": 1000,
        "kube-api-burst": 1000,
        "cdi-root": folders.cdi,
        "kubelet-registrar-directory-path": folders.registrations,
        "kubelet-plugins-directory-path": folders.kubelet / "plugins",
        "num-devices": CARDS,
    }
    program = str(EXAMPLE_DRIVER.build() / "dra-example-kubeletplugin")
    return Program(PEER, "gpu.example.com", [program, *(f"--{k}={v}" for k, v in flags.items())], {})


@contextmanager
def running(plane: ControlPlane, api: Api, program: Program, folders: Folders) -> Iterator[Plugin]:
    """The plugin while it runs.

    Raises:
        RuntimeError: it ended; the message has the end of its log.
        TimeoutError: it did not register or publish in time.
    """
    log = plane.folder / f"{program.driver}.log"
    environment = {**os.environ, **program.environment, "NODE_NAME": NODE}
    process = start_process(program.arguments, log, environment)
    kubelet = PluginClient(str(folders.kubelet), program.driver)

    def check_alive() -> None:
        if process.poll() is not None:
            text = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{program.name} ended with status {process.returncode}:\n{text}")

    try:
        wait_until(f"{program.name} is registered", lambda: bool(kubelet.sync()), check_alive)
        wait_until(f"{program.name} has published", lambda: len(_cards(api, program.driver)) == CARDS, check_alive)
        yield Plugin(program.name, program.driver, process.pid, kubelet, _cards(api, program.driver))
        check_alive()
    finally:
        kubelet.close()
        process.terminate()
        process.wait(_STOP_SECONDS)


def _cards(api: Api, driver: str) -> list[tuple[str, str]]:
    slices = [raw["spec"] for raw in api.list(RESOURCE_SLICES).items if raw["spec"]["driver"] == driver]
    return [
        (spec["pool"]["name"], device["name"])
        for spec in slices
        for device in spec.get("devices", [])
        if _WHOLE_CARD.fullmatch(device["name"])
    ]
