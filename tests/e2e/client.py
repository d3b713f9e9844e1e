"""The administrator: kubectl, and the API itself for what tests ask again and again."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from testclusters.commands import CommandFailed
from testclusters.kind import KindCluster
from tests.e2e.apiserver import ApiServer

Object = dict[str, Any]
T = TypeVar("T")

TIMEOUT = 120.0
"""Seconds within which a condition must become true. The kubelets here retry a failed prepare after about 10 s."""


def eventually(condition: str, get: Callable[[], T], seconds: float = TIMEOUT, pause: float = 0.2) -> T:
    """Call ``get`` until it returns a true value, and return that value.

    An AssertionError or a failed command in ``get`` means "not yet". Fails the test after ``seconds``, with the last
    value or error.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if value := get():
                return value
            last = repr(value)
        except (AssertionError, CommandFailed, LookupError, subprocess.TimeoutExpired) as error:
            last = f"{type(error).__name__}: {error}"
        if time.monotonic() > deadline:
            raise AssertionError(f"{condition}: not within {seconds:.0f} s; last seen: {last[:1500]}")
        time.sleep(pause)


def eventually_none(condition: str, get: Callable[[], object]) -> None:
    """Call ``get`` until it returns an empty value; fails as `eventually` does, with the last value."""

    def nothing() -> bool:
        value = get()
        assert not value, value
        return True

    eventually(condition, nothing)


@dataclass(frozen=True, slots=True)
class Client:
    """kubectl with all rights. What is listed and got is asked of the API server without it, which is much cheaper."""

    cluster: KindCluster
    api: ApiServer

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True, timeout: float = 60.0) -> str:
        """The output of kubectl; raises `CommandFailed` if it fails and ``check`` is set."""
        done = self.cluster.kubectl(*arguments, input=input, check=check, timeout=timeout)
        return done.stdout if done.returncode == 0 else done.stderr

    @contextmanager
    def streaming(self, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
        """A kubectl that runs, and prints to its pipe, until the end of the block."""
        program = self.cluster.folder / "bin/kubectl"
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen([program, *arguments], stdin=null, stdout=pipe, stderr=null, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def list(self, kind: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        """All objects of a kind in a namespace, or in all namespaces if it is "".

        Args:
            kind: a key of `RESOURCES`.
            labels: a selector of labels.
            fields: a selector of fields.
        """
        return self.api.list(kind, namespace, labelSelector=labels, fieldSelector=fields)

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        """One object; raises `CommandFailed` if it does not exist."""
        return self.api.get(kind, name, namespace)

    def apply(self, namespace: str, *objects: Object) -> None:
        """Create or change objects, in ``namespace`` or in the one that an object names."""
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", f"--namespace={namespace}", "-f", "-", input=json.dumps(content))

    def create(self, namespace: str, *objects: Object) -> None:
        """Create objects with one kubectl command."""
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("create", f"--namespace={namespace}", "-f", "-", input=json.dumps(content))

    def delete(self, namespace: str, kind: str, *names: str, wait: bool = True) -> None:
        """Delete objects by name, or all of the kind without names; with ``wait``, return when they are gone."""
        selected = list(names) or ["--all"]
        options = [f"--wait={str(wait).lower()}", "--ignore-not-found", f"--timeout={TIMEOUT:.0f}s"]
        self.kubectl("delete", kind, f"--namespace={namespace}", *selected, *options, timeout=TIMEOUT + 30)

    def wait_until_ready(self, namespace: str, *pods: str, before_check: Callable[[], None] = lambda: None) -> None:
        """Wait until these pods are ready; without names all pods of the namespace, and none is being deleted.

        Fails after `TIMEOUT`. ``before_check`` is called before each check.
        """

        def all_ready() -> bool:
            before_check()
            listed = self.list("pods", namespace)
            waiting = [pod["metadata"]["name"] for pod in listed if not _ready(pod)]
            missing = [name for name in waiting if not pods or name in pods]
            assert not missing, f"not ready: {missing}"
            assert set(pods) <= set(names(listed))
            return True

        eventually("the pods are ready", all_ready)

    def exec(self, namespace: str, pod: str, container: str, *argv: str) -> str:
        """The output of a program that runs in a container."""
        return self.kubectl("exec", f"--namespace={namespace}", pod, "-c", container, "--", *argv)

    def claims(self, namespace: str) -> dict[str, dict[str, Object]]:
        """The claims of every pod, by the pod's name and the claim's name in the pod."""
        by_name = {claim["metadata"]["name"]: claim for claim in self.list("resourceclaims", namespace)}
        claims: dict[str, dict[str, Object]] = {}
        for pod in self.list("pods", namespace):
            statuses = pod["status"].get("resourceClaimStatuses", [])
            created = {status["name"]: status.get("resourceClaimName") for status in statuses}
            existing = {name: by_name[claim] for name, claim in created.items() if claim in by_name}
            claims[pod["metadata"]["name"]] = existing
        return claims

    def devices(self, namespace: str, pod: str) -> set[str]:
        """The devices allocated to a pod, as ``pool/device``; empty while it waits."""
        return {
            f"{it['pool']}/{it['device']}" for claim in self.claims(namespace)[pod].values() for it in results(claim)
        }

    def messages(self, namespace: str, name: str) -> str:
        """The messages about an object: its events, and the conditions of a pod with that name."""
        events = self.list("events", namespace, fields=f"involvedObject.name={name}")
        messages = [f"{event['reason']}: {event['message']}" for event in events]
        for pod in self.list("pods", namespace, fields=f"metadata.name={name}"):
            messages += [
                f"{condition['type']}={condition['status']} {condition.get('reason')}: {condition.get('message')}"
                for condition in pod["status"].get("conditions", [])
            ]
        return "\n".join(messages)


def _ready(pod: Object) -> bool:
    conditions = {it["type"]: it["status"] for it in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def results(claim: Object) -> list[Object]:
    """The devices that are allocated to a claim, as the API lists them."""
    return list(((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", []))


def names(objects: Sequence[Object]) -> list[str]:
    """The names of objects."""
    return [obj["metadata"]["name"] for obj in objects]
