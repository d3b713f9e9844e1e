"""Admission in memory: what the policies do on a real API server, too (tests/contract/test_policies.py)."""

from typing import Any

import pytest

from driver.names import FINALIZER, Names
from memoryapi.admission import gate_pod, protect_claim

CLAIMS = [{"name": "gpu", "resourceClaimName": "c"}]
GATE = {"name": "lode.dev/allocation"}


@pytest.mark.parametrize(
    ("spec", "labels", "namespace", "gated"),
    [
        ({"resourceClaims": CLAIMS}, {}, {}, True),
        ({"resourceClaims": CLAIMS}, {}, {"lode.dev/gate": "off"}, False),
        ({"resourceClaims": CLAIMS, "nodeName": "n1"}, {}, {}, False),
        ({}, {}, {}, False),
        ({}, {"lode.dev/gang": "train"}, {}, True),
        ({}, {"lode.dev/gang": ""}, {}, True),
        ({}, {"lode.dev/gang": "train"}, {"lode.dev/gate": "off"}, False),
        ({}, {"scheduling.x-k8s.io/pod-group": "train"}, {}, False),
    ],
)
def test_pods_with_claims_and_members_of_gangs_get_the_gate(
    spec: Any, labels: dict[str, str], namespace: dict[str, str], gated: bool
) -> None:
    pod = gate_pod({"metadata": {"name": "p", "labels": labels}, "spec": spec}, Names(), namespace)
    assert pod["spec"].get("schedulingGates") == ([GATE] if gated else None)


@pytest.mark.parametrize(
    ("request_", "finalizers", "expected"),
    [
        ({"exactly": {"deviceClassName": "gpu.lode.dev"}}, [], [FINALIZER]),
        ({"exactly": {"deviceClassName": "gpu.lode.dev"}}, ["a"], ["a", FINALIZER]),
        ({"exactly": {"deviceClassName": "gpu.lode.dev"}}, [FINALIZER], [FINALIZER]),
        ({"firstAvailable": [{"deviceClassName": "x"}, {"deviceClassName": "mig.lode.dev"}]}, [], [FINALIZER]),
        ({"exactly": {"deviceClassName": "gpu.example.com"}}, [], []),
        ({"exactly": {"deviceClassName": "lode.dev"}}, [], []),
    ],
)
def test_claims_for_our_classes_get_the_finalizer(
    request_: dict[str, Any], finalizers: list[str], expected: list[str]
) -> None:
    claim = {"metadata": {"name": "c", "finalizers": finalizers}, "spec": {"devices": {"requests": [request_]}}}
    assert protect_claim(claim, Names())["metadata"]["finalizers"] == expected
