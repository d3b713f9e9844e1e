"""kubectl, as a user has it, and the few questions that tests ask with it."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from testclusters import CommandFailed, KindCluster

Object = dict[str, Any]
T = TypeVar("T")

PATIENCE = 120.0
"""Seconds within which everything must have happened: a kubelet retries a failed prepare after some 10 s here."""


def eventually(what: str, look: Callable[[], T], seconds: float = PATIENCE, pause: float = 0.3) -> T:
    """What ``look`` returns as soon as that is true; an AssertionError or a failed command inside means not yet.

    Fails the test after ``seconds``, with the last thing seen.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := look():
                return found
            seen = repr(found)
        except (AssertionError, CommandFailed, LookupError, subprocess.TimeoutExpired) as error:
            seen = f"{type(error).__name__}: {error}"
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:.0f} s; last seen: {seen[:1500]}")
        time.sleep(pause)


def gone(what: str, look: Callable[[], object]) -> None:
    """Return once ``look`` finds nothing more; fails as `eventually` does, with what it found."""

    def nothing() -> bool:
        found = look()
        assert not found, found
        return True

    eventually(what, nothing)


@dataclass(frozen=True, slots=True)
class Client:
    """A person with kubectl and the right to everything."""

    cluster: KindCluster

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True, timeout: float = 60.0) -> str:
        """What kubectl prints; raises `CommandFailed` with what it says when it fails and ``check`` is set."""
        done = self.cluster.kubectl(*arguments, input=input, check=check, timeout=timeout)
        return done.stdout if done.returncode == 0 else done.stderr

    @contextmanager
    def following(self, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
        """A kubectl that goes on printing, until the end of the block."""
        program = self.cluster.folder / "bin/kubectl"
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen([program, *arguments], stdin=null, stdout=pipe, stderr=null, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def list(self, kind: str, namespace: str = "", *options: str) -> list[Object]:
        """All objects of a kind, in one namespace or ("") in all."""
        where = [f"--namespace={namespace}"] if namespace else ["--all-namespaces"]
        return list(json.loads(self.kubectl("get", kind, *where, *options, "-o", "json"))["items"])

    def get(self, kind: str, name: str, namespace: str) -> Object:
        """One object; `CommandFailed` if it is not there."""
        return dict(json.loads(self.kubectl("get", kind, name, f"--namespace={namespace}", "-o", "json")))

    def apply(self, namespace: str, *objects: Object) -> None:
        """Create or change objects; a namespace they name themselves counts."""
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", f"--namespace={namespace}", "-f", "-", input=json.dumps(content))

    def create(self, namespace: str, *objects: Object) -> None:
        """Create objects, in one request to kubectl."""
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("create", f"--namespace={namespace}", "-f", "-", input=json.dumps(content))

    def delete(self, namespace: str, kind: str, *names: str, wait: bool = True) -> None:
        """Delete objects by name, or all of the kind without names; returns when they are gone unless told not to."""
        chosen = list(names) or ["--all"]
        options = [f"--wait={str(wait).lower()}", "--ignore-not-found", f"--timeout={PATIENCE:.0f}s"]
        self.kubectl("delete", kind, f"--namespace={namespace}", *chosen, *options, timeout=PATIENCE + 30)

    def wait_until_ready(self, namespace: str, *pods: str, help_on: Callable[[], None] = lambda: None) -> None:
        """Return when these pods (without names: all of the namespace, those that are being deleted having gone) are
        ready; fails after `PATIENCE`. ``help_on`` is called before each look.
        """

        def all_ready() -> bool:
            help_on()
            listed = self.list("pods", namespace)
            waiting = [it["metadata"]["name"] for it in listed if not _ready(it)]
            chosen = [name for name in waiting if not pods or name in pods]
            assert not chosen, f"not ready: {chosen}"
            assert set(pods) <= set(names(listed))
            return True

        eventually("the pods are ready", all_ready)

    def exec(self, namespace: str, pod: str, container: str, *argv: str) -> str:
        """What a program prints inside a container."""
        return self.kubectl("exec", f"--namespace={namespace}", pod, "-c", container, "--", *argv)

    def claims(self, namespace: str) -> dict[str, dict[str, Object]]:
        """The claims of every pod, by the pod's name and the name that the pod calls them."""
        by_name = {claim["metadata"]["name"]: claim for claim in self.list("resourceclaims", namespace)}
        found: dict[str, dict[str, Object]] = {}
        for pod in self.list("pods", namespace):
            statuses = pod["status"].get("resourceClaimStatuses", [])
            made = {it["name"]: it.get("resourceClaimName") for it in statuses}
            known = {name: by_name[claim] for name, claim in made.items() if claim in by_name}
            found[pod["metadata"]["name"]] = known
        return found

    def devices(self, namespace: str, pod: str) -> set[str]:
        """The devices allocated to a pod, as ``pool/device``; empty while it waits."""
        return {
            f"{it['pool']}/{it['device']}" for claim in self.claims(namespace)[pod].values() for it in results(claim)
        }

    def complaints(self, namespace: str, name: str) -> str:
        """Everything said about an object: its events, and the conditions of a pod of that name."""
        events = self.list("events", namespace, f"--field-selector=involvedObject.name={name}")
        said = [f"{event['reason']}: {event['message']}" for event in events]
        for pod in self.list("pods", namespace, f"--field-selector=metadata.name={name}"):
            said += [
                f"{condition['type']}={condition['status']} {condition.get('reason')}: {condition.get('message')}"
                for condition in pod["status"].get("conditions", [])
            ]
        return "\n".join(said)


def _ready(pod: Object) -> bool:
    conditions = {it["type"]: it["status"] for it in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def results(claim: Object) -> list[Object]:
    """The devices a claim holds, as the API lists them."""
    return list(((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", []))


def names(objects: Sequence[Object]) -> list[str]:
    """The objects' names."""
    return [obj["metadata"]["name"] for obj in objects]
