"""Claim templates and pods for tests."""

from collections.abc import Mapping
from typing import Any

from tests.e2e.client import Object

PROFILE = "lode.dev/simulated-profile"
SLEEP = ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"]
"""A command that ends at once on SIGTERM."""


def request(kind: str = "gpu", count: int = 1, selector: str = "", name: str = "card", **capacity: str) -> Object:
    """A request for devices of a kind."""
    exactly: Object = {"deviceClassName": f"{kind}.lode.dev", "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {"name": name, "exactly": exactly}


def template(name: str, *requests: Object, **devices: Any) -> Object:
    """A claim template with these requests; ``constraints`` and ``config`` are keyword arguments."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests), **devices}}},
    }


def pod(name: str, *templates: str, profile: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """A pod with one claim from each template; with ``profile``, on a node with this simulated profile."""
    claims = [{"name": f"c{number}", "resourceClaimTemplateName": it} for number, it in enumerate(templates)]
    container = {
        "name": "main",
        "image": "lode-test/busybox:1",
        "imagePullPolicy": "IfNotPresent",
        "command": SLEEP,
        "resources": {
            "requests": {"cpu": "1m", "memory": "4Mi"},
            "claims": [{"name": claim["name"]} for claim in claims],
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            **({"nodeSelector": {PROFILE: profile}} if profile else {}),
            "resourceClaims": claims,
            "containers": [container],
            **spec,
        },
    }
