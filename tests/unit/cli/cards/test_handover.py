"""`lode handover` on an API server: the label that keeps a device plugin away, and no card in two hands."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cli.cards import handover
from cli.cards.device_plugins import MARK, RECORD
from driver.kube.api import DAEMON_SETS, NODES, PODS, RESOURCE_SLICES, Object
from tests.unit.cli.cards.operator import Operator
from tests.unit.cli.cluster import pod

PLUGIN = "kube-system/nvidia-device-plugin"
GPU = "nvidia.com/gpu"
OTHER_DRIVER = {"key": "lode.dev/other-driver", "effect": "NoSchedule"}
CARDS = {"gpu-0", "gpu-1"}


class ServedNode:
    """Node ``n`` with two cards, a device plugin on it, and what its kubelet and our plugin do when time passes.

    Attributes:
        selector: the device plugin's ``nodeSelector``.
        held: the cards of pods that have them from the device plugin.
        kept_until: the time until which our plugin waits whether the device plugin comes back.
        delay: how often our plugin looks before it sees that the device plugin has come back.
        free: the cards that were open to claims while the device plugin had come back.
    """

    def __init__(self, operator: Operator, monkeypatch: pytest.MonkeyPatch):
        self.operator = operator
        self.api = operator.stored
        self.selector = {"nvidia.com/gpu.deploy.device-plugin": "true"}
        self.held: set[str] = set()
        self.kept_until = 0.0
        self.delay = self._unseen = 0
        self.free: set[str] = set()
        self.label("n", self.selector)
        self.create_plugin()
        operator.meanwhile = self.turn
        monkeypatch.setattr(handover, "SystemClock", lambda: operator.clock)
        self.turn()

    def label(self, name: str, labels: dict[str, Any]) -> None:
        self.api.patch(NODES, name, {"metadata": {"labels": labels}})

    @property
    def node(self) -> Object:
        return self.api.get(NODES, "n")

    def create_plugin(self, key: str = PLUGIN, **spec: Any) -> None:
        namespace, _, name = key.partition("/")
        template = {"spec": {"nodeSelector": self.selector, "containers": [], **spec}}
        daemon_set = {"metadata": {"name": name}, "spec": {"template": template}}
        self.api.create(DAEMON_SETS, daemon_set, namespace)

    def old_pod(self, name: str, card: str, amount: str = "1") -> None:
        """A pod that has a card from the device plugin."""
        made = pod(name, nodeName="n")
        made["spec"]["containers"][0]["resources"] = {"limits": {GPU: amount}}
        self.api.create(PODS, made, "default")
        self.held.add(card)

    def turn(self) -> None:
        """The DaemonSet controller, the kubelet and our plugin have looked."""
        self.operator.pods_end()
        labels = self.node["metadata"].get("labels") or {}
        stays = all(labels.get(key) == value for key, value in self.selector.items()) and MARK not in labels
        name = "nvidia-device-plugin-x"
        there = [it["metadata"]["name"] for it in self.api.list(PODS, namespace="kube-system").items]
        if stays and not there:
            volumes = [{"name": "s", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "nvidia-device-plugin", "uid": "u"}
            made = pod(name, nodeName="n", volumes=volumes)
            made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            self.api.create(PODS, made, "kube-system")
        if not stays and there:
            self.api.delete(PODS, name, "kube-system", grace_period_seconds=0)
        amount = {GPU: "2" if stays else "0"}
        self.api.patch(NODES, "n", {"status": {"capacity": amount, "allocatable": amount}}, subresource="status")
        self._unseen = self._unseen - 1 if stays else self.delay
        offered = CARDS if stays and self._unseen < 0 else set()
        if self.operator.clock.monotonic() < self.kept_until:
            offered = CARDS
        if stays and not self.operator.rules:
            self.free |= CARDS - offered - self.held
        self.taint(dict.fromkeys(self.held, "pods") | dict.fromkeys(offered, "device-plugin"))

    def taint(self, cards: Mapping[str, str]) -> None:
        for part in self.api.list(RESOURCE_SLICES, field_selector="spec.nodeName=n").items:
            for device in part["spec"].get("devices", ()):
                device.pop("taints", None)
                for card, by in cards.items():
                    if device["name"].startswith(card):
                        device["taints"] = [OTHER_DRIVER | {"value": by}]
            self.api.update(RESOURCE_SLICES, part)

    def call(self, *more: str) -> tuple[int, str, str]:
        return self.operator.call("handover", "n", *more)


@pytest.fixture
def served(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> ServedNode:
    return ServedNode(operator, monkeypatch)


def test_a_node_is_taken_while_old_pods_run_on_and_given_back(served: ServedNode) -> None:
    served.old_pod("old", "gpu-0")
    status, out, errors = served.call()
    assert (status, errors) == (0, "")
    assert out.splitlines()[-2:] == [
        "node n: open to claims: gpu-1",
        "cards of pods that run on: gpu-0; pods: default/old",
    ]
    assert served.node["metadata"]["labels"] == {"nvidia.com/gpu.deploy.device-plugin": "false"}
    assert served.operator.pods == ["old"]
    status, out, errors = served.call("--back")
    assert (status, errors) == (0, "")
    assert out.splitlines()[-1] == f"node n is given back to {PLUGIN}"
    assert served.node["metadata"]["labels"] == served.selector
    assert RECORD not in served.node["metadata"].get("annotations", {})
    assert served.operator.rules == []


def test_a_node_is_given_back_when_the_plugin_has_seen_it_also_while_an_old_pod_has_a_card(served: ServedNode) -> None:
    served.old_pod("old", "gpu-0")
    served.delay = 5
    served.call()
    assert served.call("--back")[0] == 0
    served.turn()
    assert served.free == set()


def test_a_node_whose_kubelet_was_restarted_meanwhile_is_taken_when_its_cards_are_open(served: ServedNode) -> None:
    served.kept_until = served.operator.clock.monotonic() + 320
    status, out, errors = served.call()
    assert (status, errors) == (0, "")
    assert out.splitlines()[-1] == "node n: open to claims: gpu-0, gpu-1"


def test_a_second_call_changes_nothing(served: ServedNode) -> None:
    served.call()
    before = served.node["metadata"]["annotations"]
    assert served.call()[0] == 0
    assert served.node["metadata"]["annotations"] == before


def test_while_claims_hold_cards_the_node_is_not_given_back_and_no_claim_gets_more(served: ServedNode) -> None:
    served.call()
    served.operator.hold("mine", "n/gpu-1")
    status, _, errors = served.call("--back")
    assert status == 1
    assert errors.splitlines() == [
        "lode handover: claims hold cards; first kubectl lode drain n",
        "  held by claim default/mine (n/gpu-1), used by pods/mine",
    ]
    assert served.operator.rules == ["all.n.cordon.lode.dev"]
    assert served.node["metadata"]["labels"]["nvidia.com/gpu.deploy.device-plugin"] == "false"
    assert served.call()[0] == 0
    assert served.operator.rules == []


def test_cards_that_were_cordoned_before_stay_so(served: ServedNode) -> None:
    served.call()
    served.operator.call("cordon", "n")
    assert served.call("--back")[0] == 0
    assert served.operator.rules == ["all.n.cordon.lode.dev"]


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("arguments", [(), ("--back",)], ids=["taken", "given back"])
def test_killed_at_any_write_the_next_call_ends_as_if_nothing_had_happened(
    served: ServedNode, arguments: list[str]
) -> None:
    served.old_pod("old", "gpu-0")
    served.call()
    if not arguments:
        served.call("--back")
    whole = writes_of(served, -1, *arguments)
    served.call(*(() if arguments else ("--back",)))
    for number in range(len(whole)):
        with pytest.raises(_Killed):
            writes_of(served, number, *arguments)
        assert served.call(*arguments)[0] == 0
        assert served.operator.rules == []
        wanted = served.selector if arguments else {"nvidia.com/gpu.deploy.device-plugin": "false"}
        assert served.node["metadata"]["labels"] == wanted
        served.call(*(() if arguments else ("--back",)))


def writes_of(served: ServedNode, killed_before: int, *arguments: str) -> list[str]:
    """The writes of a call that is killed before one of them, by its number; -1: never."""
    writes: list[str] = []
    passed_on = served.operator.api.call

    def call(call: Any) -> Any:
        if call.verb not in ("get", "list"):
            if len(writes) == killed_before:
                raise _Killed
            writes.append(call.verb)
        return passed_on(call)

    served.operator.api.call = call  # type: ignore[method-assign]
    try:
        served.call(*arguments)
    finally:
        served.operator.api.call = passed_on  # type: ignore[method-assign]
    return writes


def test_a_dry_run_says_the_steps_and_changes_nothing(served: ServedNode) -> None:
    served.old_pod("old", "gpu-0")
    before = served.node
    status, out, _ = served.call("--dry-run")
    assert status == 0
    assert out.splitlines() == [
        f"keep the device plugin {PLUGIN} away: label nvidia.com/gpu.deploy.device-plugin=false (dry run)",
        "wait until its pod has left, and the kubelet has forgotten its devices (up to five minutes) (dry run)",
        "pods that run on with their cards: default/old",
    ]
    assert served.node == before


def test_a_device_plugin_that_shares_its_label_is_kept_away_by_a_mark_that_it_has_to_respect(
    served: ServedNode,
) -> None:
    served.create_plugin("default/exporter")
    status, _, errors = served.call()
    assert status == 2
    assert "nvidia.com/gpu.deploy.device-plugin=true also brings default/exporter" in errors
    patch = json.loads(errors.split(" -p '")[1].rstrip().removesuffix("'"))
    namespace, _, name = PLUGIN.partition("/")
    served.api.patch(DAEMON_SETS, name, patch, namespace=namespace)
    assert served.call()[0] == 0
    assert served.node["metadata"]["labels"] == {**served.selector, MARK: "true"}
    assert served.call("--back")[0] == 0
    assert served.node["metadata"]["labels"] == served.selector


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["m"], "offers no device of a device plugin"),
        (["n", "--daemonset", "a/b"], f"DaemonSet a/b registers no devices on node n; those that do: {PLUGIN}"),
        (["n", "--back"], "node n was not handed over by this command"),
        (["x"], "node x publishes no cards of lode.dev"),
    ],
    ids=["no device plugin", "another DaemonSet", "not handed over", "no such node"],
)
def test_what_cannot_be_done_is_said(served: ServedNode, arguments: list[str], words: str) -> None:
    status, out, errors = served.operator.call("handover", *arguments)
    assert words in (errors if status else out)


_DEEP = "[" * 2_000


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", _DEEP, '{"daemon_set": 1, "label": "a"}', '{"daemon_set": "a", "more": 1}']
)
def test_an_annotation_of_somebody_else_is_left_alone(served: ServedNode, text: str) -> None:
    served.api.patch(NODES, "n", {"metadata": {"annotations": {RECORD: text}}})
    status, _, errors = served.call()
    assert status == 2
    assert f"the annotation {RECORD} is not one that this command wrote; remove it" in errors


def test_what_does_not_come_about_in_time_is_named_and_continued_later(served: ServedNode) -> None:
    served.operator.meanwhile = lambda: None
    status, _, errors = served.call("--timeout", "10s")
    assert status == 1
    assert f"not within 10 s: the pod of {PLUGIN} has left; call it again" in errors
    served.operator.meanwhile = served.turn
    assert served.call()[0] == 0


def test_an_old_pod_is_named_whatever_its_amount_is_written_as(served: ServedNode) -> None:
    served.old_pod("old", "gpu-0", amount="3k")
    assert served.call()[1].splitlines()[-1] == "cards of pods that run on: gpu-0; pods: default/old"


@pytest.mark.parametrize("spec", [{}, {"template": None}, {"template": {"spec": {"nodeSelector": 3, "affinity": []}}}])
def test_a_daemon_set_that_cannot_be_read_hides_no_device_plugin(served: ServedNode, spec: Object) -> None:
    served.api.create(DAEMON_SETS, {"metadata": {"name": "odd"}, "spec": spec}, "default")
    assert served.call()[0] == 0
