"""Of what kube-scheduler says about all nodes, the part about the allocation's node is picked out."""

import pytest

from controller.reconcile.history import relevant_reason

PREEMPTION = "still not schedulable, preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling."
NO_PREEMPTION = "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."


@pytest.mark.parametrize(
    ("message", "clause"),
    [
        (
            "0/6 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 5 resourceclaim not available on "
            f"the node. {PREEMPTION}",
            "node(s) didn't match pod anti-affinity rules",
        ),
        (
            "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 2 cannot allocate all "
            f"claims. {NO_PREEMPTION}",
            "Insufficient cpu",
        ),
        (
            "0/2 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 1 "
            f"node(s) had volume node affinity conflict. {NO_PREEMPTION}",
            "node(s) had volume node affinity conflict",
        ),
        (
            "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 resourceclaim not available on the node.",
            "node(s) had untolerated taint(s)",
        ),
        ("0/3 nodes are available: 3 cannot allocate all claims.", "cannot allocate all claims"),
        ("0/1 nodes are available: 1 Too many pods", "Too many pods"),
        ('persistentvolumeclaim "data" not found', 'persistentvolumeclaim "data" not found'),
        ("", ""),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_the_useful_clause(message: str, clause: str) -> None:
    assert relevant_reason(message) == clause
