"""The gate in memory: the same pods get it as by the policy on a real API server (tests/contract/test_policies.py)."""

from typing import Any

import pytest

from driver.names import Names
from memoryapi.admission import gate_pod

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
