"""``lode cordon``, ``drain``, ``reset`` and ``uncordon`` with a real API server, as a user with the documented role."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.__main__ import main as lode
from driver.kube.api import DEVICE_TAINT_RULES, POD_DISRUPTION_BUDGETS, PODS, Api, NotFound, Object
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.sandbox import Sandbox

ROLE = Path(__file__).parent.parent.parent / "manifests" / "examples" / "administration" / "card-role.yaml"


class _Operator:
    """A user who may do what the role says, and nothing else."""

    def __init__(self, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]):
        self.sandbox = sandbox
        self._capsys = capsys
        self._options = ["--kubeconfig", str(sandbox.plane.kubeconfig(sandbox.name, ())), "--driver", sandbox.driver]

    def call(self, *argv: str) -> tuple[int, str, str]:
        status = lode([*argv, *self._options])
        shown = self._capsys.readouterr()
        return status, shown.out, shown.err

    @property
    def rules(self) -> list[str]:
        found = self.sandbox.api.list(DEVICE_TAINT_RULES).items
        return [rule["metadata"]["name"] for rule in found if rule["metadata"]["name"].endswith(self.sandbox.driver)]

    def run_pod(self, name: str, card: str) -> Object:
        """A pod that holds a card and counts as running. A gate of others keeps kube-scheduler from it: no kubelet
        would end it.
        """
        made = self.sandbox.pod(name, "example.com/unbound")
        self.sandbox.hold(made, card)
        let_go = {"metadata": {"labels": {"app": name}}, "spec": {"schedulingGates": [{"name": "example.com/unbound"}]}}
        self.sandbox.api.patch(PODS, name, let_go, namespace=self.sandbox.name)
        status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        return self.sandbox.api.patch(PODS, name, status, namespace=self.sandbox.name, subresource="status")


@pytest.fixture
def sandbox(admin: Api, control_plane: ControlPlane, unique: str) -> Iterator[Sandbox]:
    created = Sandbox(admin, control_plane, unique)
    yield created
    for rule in admin.list(DEVICE_TAINT_RULES).items:
        if rule["metadata"]["name"].endswith(created.driver):
            admin.delete(DEVICE_TAINT_RULES, rule["metadata"]["name"])
    created.remove()


@pytest.fixture
def operator(sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> _Operator:
    name, plane = sandbox.name, sandbox.plane
    plane.kubectl("apply", "-f", "-", input=ROLE.read_text().replace("lode-cards", name))
    plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={name}")
    created = _Operator(sandbox, capsys)
    eventually(lambda: created.call("cordon", name, "--dry-run")[0] == 0)
    return created


def test_a_user_without_the_role_is_told_which_right_is_missing(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = _Operator(sandbox, capsys).call("cordon", sandbox.name)
    assert status == 2
    assert "you may not list resourceslices of API group resource.k8s.io" in err
    assert "docs/cards.md has the ClusterRole" in err


def test_the_api_server_takes_the_rules_and_they_are_removed_again(operator: _Operator) -> None:
    node, driver = operator.sandbox.name, operator.sandbox.driver
    of_card = [f"card-1-share.{node}.cordon.{driver}", f"card-1.{node}.cordon.{driver}"]
    assert operator.call("cordon", f"{node}/card-1")[0] == 0
    assert operator.rules == of_card
    assert operator.call("cordon", node)[0] == 0
    assert operator.rules == [f"all.{node}.cordon.{driver}", *of_card]
    assert "already cordoned" in operator.call("cordon", node)[1]
    assert operator.call("uncordon", node)[0] == 1, "card-1 is cordoned by itself"
    assert operator.call("uncordon", f"{node}/card-1")[0] == 0
    assert operator.rules == []


def test_a_drain_waits_for_the_budget_and_evicts_only_who_holds_the_card(operator: _Operator) -> None:
    api, name = operator.sandbox.api, operator.sandbox.name
    operator.run_pod("a", "card-0")
    operator.run_pod("b", "card-1")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    api.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "keep"}, "spec": spec}, name)
    eventually(lambda: api.get(POD_DISRUPTION_BUDGETS, "keep", name)["status"].get("observedGeneration"))
    status, out, err = operator.call("drain", f"{name}/card-0", "--force", "--timeout", "3s")
    assert status == 1
    assert f"evicting pod {name}/a" in out
    assert "is not evicted yet, and is tried again" in err
    assert f"held by claim {name}/a-t-" in err
    assert operator.call("reset", f"{name}/card-0")[0] == 1
    later = threading.Timer(3.0, lambda: api.delete(POD_DISRUPTION_BUDGETS, "keep", name))
    later.start()
    try:
        status, out, err = operator.call("drain", f"{name}/card-0", "--force", "--timeout", "60s")
    finally:
        later.join()
    assert status == 0, err
    assert out.splitlines()[-2:] == [f"pod {name}/a evicted", f"card {name}/card-0 drained"]
    with pytest.raises(NotFound):
        api.get(PODS, "a", name)
    assert api.get(PODS, "b", name)["metadata"].get("deletionTimestamp") is None
    assert operator.call("reset", f"{name}/card-0")[0] == 0
