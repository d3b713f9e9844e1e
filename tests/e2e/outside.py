"""A controller that runs on this machine in place of those in the cluster, with the rights that these have."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from testclusters.commands import start_process
from tests.e2e.client import Client, eventually_none
from tests.e2e.controller import LABEL, SYSTEM
from tests.e2e.flavors import wait_until_installed

_DEPLOYMENT = "deployment/lode-controller"


class OutsideController:
    """Starts controllers on this machine.

    Args:
        folder: for settings, credentials and logs.
    """

    def __init__(self, client: Client, folder: Path):
        self._client = client
        self._folder = folder

    @contextmanager
    def running(self, *program: str, **settings: Any) -> Iterator["subprocess.Popen[bytes]"]:
        """The process of the controller, or of ``program``, which takes the same options.

        Args:
            settings: of the controller's section.
        """
        file = self._folder / "settings.yaml"
        file.write_text(json.dumps({"observeAddress": "", "controller": {"debugAddress": "", **settings}}))
        options = ["--settings", str(file), "--kubeconfig", str(self._kubeconfig())]
        command = self._client.cluster.network_command(sys.executable, "-m", *(program or ("controller",)), *options)
        process = start_process(command, self._folder / "controller.log", dict(os.environ))
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)

    def _kubeconfig(self) -> Path:
        """Credentials of the controller's service account."""
        token = self._client.kubectl("-n", SYSTEM, "create", "token", "lode-controller", "--duration=1h").strip()
        config = yaml.safe_load(self._client.cluster.kubeconfig.read_text())
        config["users"] = [{**user, "user": {"token": token}} for user in config["users"]]
        file = self._folder / "kubeconfig"
        file.write_text(json.dumps(config))
        return file


@contextmanager
def outside_controller(client: Client, folder: Path) -> Iterator[OutsideController]:
    """No controller runs in the cluster during the block."""
    client.kubectl("-n", SYSTEM, "scale", _DEPLOYMENT, "--replicas=0")
    eventually_none("no controller runs", lambda: client.list("pods", SYSTEM, labels=LABEL))
    try:
        yield OutsideController(client, folder)
    finally:
        client.kubectl("-n", SYSTEM, "scale", _DEPLOYMENT, "--replicas=2")
        wait_until_installed(client)
