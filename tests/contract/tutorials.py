"""Follows the pages of docs/tutorials on the cluster that `make kind` makes, as far as it can be had without nodes.

The API server, the controllers, kube-scheduler, kubectl and our controller are real. Kubelets are a stand-in: the nodes
have the names, labels and cards of `make kind`, and pods run when they are bound.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from driver.kube.api import (
    DEVICE_TAINT_RULES,
    JOBS,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    Api,
    ApiError,
    Resource,
)
from driver.kube.client import KubeClient
from testclusters.controlplane import ControlPlane
from testclusters.lifecycle import kind_configuration
from testclusters.programs import kubectl_program
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.identity import PLUGIN, Identity
from tests.contract.running import SETTINGS, is_gated, let_run, running_controller
from tests.unit.cli.cluster import slices
from tests.unit.docs.consoles import Step, steps

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS: Final = 60.0
CONTROL_PLANE: Final = "lode-control-plane"
BRIDGED: Final = "device-plugin.md"
"""The page that is not for the cluster of `make kind`."""
_MADE: Final = (
    Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
    JOBS,
    RESOURCE_QUOTAS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
)
"""The kinds that pages make, in an order in which nothing is made again while they are removed."""
_FABRIC, _PROFILE = "lode.dev/ib-cluster", "lode.dev/simulated-profile"
COMMAND = '#!/bin/sh\nexec "{python}" -m cli "$@"\n'
_SUFFIX = re.compile(r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|[bcdfghjklmnpqrstvwxz2456789]{8,10})\b")
_AGE = re.compile(r"\b(?:\d+m)?\d+s\b|\b\d+m\b")
_CHANGES = re.compile(r"kubectl (?:apply|create|delete|label|lode (?:cordon|uncordon|drain))\b")


def comparable(text: str) -> list[str]:
    """Lines without what differs each time: random ends of names, ages, and the width of columns."""
    lines = (_AGE.sub("1s", _SUFFIX.sub("-xxxxx", line)) for line in text.strip().split("\n"))
    return [" ".join(line.split()) for line in lines]


@dataclass(frozen=True)
class Reader:
    """Somebody who follows a tutorial: in a folder, with ``kubectl`` and ``lode``."""

    plane: ControlPlane
    api: Api
    folder: Path

    def follow(self, page: str) -> int:
        """Save its files, call its commands, and compare what they print; returns how many were compared."""
        compared = 0
        for step in steps(page):
            if step.file:
                (self.folder / step.file).write_text(step.text)
            else:
                compared += self._call(step)
        return compared

    def _call(self, step: Step) -> bool:
        """Returns whether the command prints something.

        What only reads is called until it prints what is told, because controllers take a moment.
        """
        told, deadline = comparable(step.text), time.monotonic() + PATIENCE_SECONDS
        while True:
            printed = comparable(self._printed(step.command))
            if len(printed) == len(told) and all(map(_agree, printed, told)):
                return told != [""]
            final = _CHANGES.match(step.command) or time.monotonic() > deadline
            assert not final, "\n".join([f"$ {step.command}", *printed, "--- but the page tells:", *told])
            time.sleep(0.3)

    def _printed(self, command: str) -> str:
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.plane.kubeconfig(delayed=False)),
            "PYTHONPATH": str(ROOT),
        }
        shell = ["bash", "-uo", "pipefail", "-c", command]
        done = subprocess.run(
            shell,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        return done.stdout

    def left(self) -> list[str]:
        """What a tutorial has not removed."""
        kinds = (PODS, RESOURCE_CLAIMS, DEVICE_TAINT_RULES)
        return [name for kind in kinds for _, name in self._of_user(kind)]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What a page makes is gone afterwards, however far it was followed, so that it does not fail the next one."""
        before = self.there()
        try:
            yield
        finally:
            self._remove_since(before)

    def there(self) -> Mapping[Resource, AbstractSet[tuple[str, str]]]:
        """Namespaces and names of what is there, of the kinds that pages make."""
        return {kind: self._of_user(kind) for kind in _MADE}

    def _remove_since(self, before: Mapping[Resource, AbstractSet[tuple[str, str]]]) -> None:
        for kind in _MADE:
            for namespace, name in self._of_user(kind) - before[kind]:
                where = ["--namespace", namespace] if namespace else []
                now = ["--force", "--grace-period=0"] if kind == PODS else []
                named = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
                self.plane.kubectl("delete", named, name, *where, *now, "--ignore-not-found", "--wait=false")
        eventually(lambda: all(self._of_user(kind) <= before[kind] for kind in _MADE), PATIENCE_SECONDS)

    def _of_user(self, kind: Resource) -> set[tuple[str, str]]:
        """Namespaces and names of the objects that do not belong to Lode."""
        named = [(it["metadata"].get("namespace", ""), it["metadata"]["name"]) for it in self.api.list(kind).items]
        return {(namespace, name) for namespace, name in named if namespace not in ("lode-system", "lode-plugin")}


def _agree(printed: str, told: str) -> bool:
    """A line that is told with ... at its end is longer."""
    return printed.startswith(told[:-3]) if told.endswith("...") else printed == told


def nodes() -> dict[str, dict[str, str]]:
    """The nodes with cards of `make kind`, each with its labels."""
    configured: Any = kind_configuration(built_here=False)["nodes"]
    workers = [one["labels"] for one in configured if one["role"] == "worker"]
    return {f"lode-worker{number if number > 1 else ''}": labels for number, labels in enumerate(workers, start=1)}


@contextmanager
def cluster(folder: Path, kubernetes: str | None = None) -> Iterator[Reader]:
    """The cluster with Lode installed, and somebody who has nothing but the commands.

    Args:
        kubernetes: the minor version, if not that of the other tests.
    """
    (folder / "bin").mkdir()
    (folder / "bin/kubectl").symlink_to(kubectl_program())
    for name in ("lode", "kubectl-lode"):
        (folder / "bin" / name).write_text(COMMAND.format(python=sys.executable))
        (folder / "bin" / name).chmod(0o755)
    with (
        ControlPlane(kubernetes=kubernetes) as plane,
        closing(KubeClient.from_environment(str(plane.kubeconfig()))) as api,
    ):
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        plane.add_node(CONTROL_PLANE, {"kubernetes.io/os": "linux"})
        plane.kubectl("taint", "node", CONTROL_PLANE, "node-role.kubernetes.io/control-plane:NoSchedule")
        for name, labels in nodes().items():
            plane.add_node(name, {"kubernetes.io/os": "linux", **labels})
            plugin = Identity.admin(plane).as_user(PLUGIN, node=name)
            for part in slices(name, labels[_PROFILE], ib_cluster=labels[_FABRIC]):
                ownerless = {**part, "metadata": {"name": part["metadata"]["name"]}}
                plugin.request("POST", RESOURCE_SLICES.path(), ownerless).must()
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", "default"))
        (plane.folder / SETTINGS).write_text(yaml.safe_dump({"observeAddress": ""}))
        stopped = threading.Event()
        kubelets = threading.Thread(target=_run_pods, args=(api, stopped), name="stand-in for kubelets")
        with running_controller(plane):
            kubelets.start()
            try:
                eventually(lambda: is_gated(api), 60)
                yield Reader(plane, api, folder)
            finally:
                stopped.set()
                kubelets.join()


def _run_pods(api: Api, stopped: threading.Event) -> None:
    while not stopped.wait(0.2):
        with suppress(ApiError):
            for pod in api.list(PODS).items:
                with suppress(ApiError):  # others have changed or deleted it meanwhile
                    let_run(api, pod)
