"""The time of a pod with one claim from its creation to Running, measured by a client that watches."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.watching import watching
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, Api, WatchEvent

TIMEOUT = 180.0


class Phases:
    """Records when each pod of a namespace is first seen in each phase, and when it has been deleted."""

    def __init__(self, api: Api, namespace: str):
        self._api = api
        self._namespace = namespace
        self._seen: dict[tuple[str, str], float] = {}
        self._changed = threading.Condition()

    @contextmanager
    def watching(self) -> Iterator["Phases"]:
        """Watch in a thread during the ``with`` block."""
        with watching(self._api, PODS, self._namespace, self._note):
            yield self

    def _note(self, event: WatchEvent, now: float) -> None:
        phase = "Gone" if event.type == "DELETED" else event.object["status"].get("phase", "")
        with self._changed:
            self._seen.setdefault((event.object["metadata"]["name"], phase), now)
            self._changed.notify_all()

    def when(self, pod: str, phase: str) -> float:
        """Wait until ``pod`` has been seen in ``phase``; returns the time of that in ``perf_counter`` seconds.

        Raises:
            TimeoutError: after three minutes.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: (pod, phase) in self._seen, TIMEOUT):
                raise TimeoutError(f"pod {pod} was not {phase} within {TIMEOUT:.0f} s")
            return self._seen[pod, phase]


def template(device_class: str) -> dict[str, Any]:
    """A claim template for one device of the class."""
    request = {"name": "card", "exactly": {"deviceClassName": device_class}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def pod(name: str) -> dict[str, Any]:
    """A pod that requests one device and sleeps."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "card", "resourceClaimTemplateName": "one"}],
            "containers": [
                {
                    "name": "main",
                    "image": "lode-test/busybox:1",
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", "100000"],
                    "resources": {"claims": [{"name": "card"}]},
                }
            ],
        },
    }


def one_after_another(api: Api, namespace: str, count: int) -> list[float]:
    """Seconds from creation to Running of each of ``count`` pods; each is created when the last one runs."""
    names = [f"single-{number}" for number in range(count)]
    seconds = []
    with Phases(api, namespace).watching() as phases:
        for name in names:
            began = time.perf_counter()
            api.create(PODS, pod(name), namespace)
            seconds.append(phases.when(name, "Running") - began)
            api.delete(PODS, name, namespace)
        for name in names:
            phases.when(name, "Gone")
    return seconds


def burst(api: Api, namespace: str, count: int) -> list[float]:
    """Seconds from creation to Running of each of ``count`` pods, created as fast as the API server accepts them."""
    names = [f"burst-{number}" for number in range(count)]
    began: dict[str, float] = {}
    with Phases(api, namespace).watching() as phases:
        for name in names:
            began[name] = time.perf_counter()
            api.create(PODS, pod(name), namespace)
        seconds = [phases.when(name, "Running") - began[name] for name in names]
        for name in names:
            api.delete(PODS, name, namespace)
        for name in names:
            phases.when(name, "Gone")
    return seconds


def prepare(api: Api, namespace: str, device_class: str) -> None:
    """Create the claim template."""
    api.create(RESOURCE_CLAIM_TEMPLATES, template(device_class), namespace)
