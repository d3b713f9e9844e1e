"""What device plugins answer reaches containers as a claim can give it, or is refused with the reason."""

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from driver.deviceplugins import DevicePluginSettings, ResourceSettings
from driver.errors import TransientFault
from kubeletplugin.hardware import CardGone, HardwareRefusal, NoRoom, Unsupported
from tests.fakes.deviceplugin.script import (
    Answer,
    Crashed,
    FileOfDevice,
    FileOrFolder,
    Listed,
    Reaction,
    Refused,
    shares_of,
)
from tests.unit.kubeletplugin.hardware.deviceplugin.conftest import MakeNode
from tests.unit.kubeletplugin.hardware.deviceplugin.hosted import HostedNode, comes_true

BOTH = {"card-a", "card-b"}
CARD = "example.com/card"
VISIBLE = "EXAMPLE_VISIBLE_DEVICES"


def answering(answer: Answer | None) -> object:
    return lambda _ids: answer


def set_for_cards(**settings: object) -> DevicePluginSettings:
    return DevicePluginSettings(resources={CARD: ResourceSettings.model_validate(settings)})


def test_a_claim_with_several_devices_is_asked_for_once_with_all_of_them(node: HostedNode) -> None:
    plugin = node.served()
    edits = node.give("claim", "card-a", "card-b")
    assert [call.ids for call in plugin.called("Allocate")] == [("card-a", "card-b")]
    assert dict(edits.env) == {VISIBLE: "card-a,card-b"}


def test_the_answer_is_kept_over_our_restart_and_not_over_a_reboot(node: HostedNode) -> None:
    plugin = node.served()
    before = node.give("claim", "card-a")
    assert node.give("claim", "card-a") == before
    node.restart()
    assert comes_true(lambda: len(plugin.registrations) == 2 and node.ids() == BOTH)
    assert node.give("claim", "card-a") == before
    assert len(plugin.called("Allocate")) == 1
    node.reboot()
    assert comes_true(lambda: len(plugin.registrations) == 3 and node.ids() == BOTH)
    assert node.give("claim", "card-a") == before
    assert len(plugin.called("Allocate")) == 2


def test_what_was_given_needs_no_plugin_any_more(node: HostedNode) -> None:
    plugin = node.served()
    before = node.give("claim", "card-a")
    plugin.kill()
    assert comes_true(lambda: not node.ids())
    assert node.give("claim", "card-a") == before
    node.take("claim", "card-a")


def test_another_claim_asks_again(node: HostedNode) -> None:
    plugin = node.served()
    node.give("one", "card-a")
    node.take("one", "card-a")
    node.give("two", "card-a")
    assert [call.ids for call in plugin.called("Allocate")] == [("card-a",), ("card-a",)]


# Plugins that do not answer


def test_a_plugin_that_is_gone_is_waited_for(node: HostedNode) -> None:
    plugin = node.served()
    use = node.use("claim", "card-a")
    (action,) = node.hardware.actions(use, ())
    plugin.kill()
    assert comes_true(lambda: not node.ids())
    with pytest.raises((TransientFault, HardwareRefusal), match="card"):
        node.hardware.ensure(action)
    plugin.start()
    assert comes_true(lambda: node.ids() == BOTH)
    node.hardware.ensure(action)


def test_a_plugin_that_hangs_delays_no_other_and_is_given_up_in_time(node: HostedNode) -> None:
    ended = threading.Event()

    def hang(_ids: Sequence[str]) -> Answer:
        ended.wait(10)
        return Answer()

    node.served(allocate=hang)
    node.served(resource="example.com/other", endpoint="other.sock")
    begun = time.monotonic()
    with ThreadPoolExecutor(1) as thread:
        hanging = thread.submit(node.give, "claim", "card-a")
        assert comes_true(lambda: node.plugins[0].called("Allocate"))
        node.give("other", "card-a", resource="example.com/other")
        assert time.monotonic() - begun < 5
        with pytest.raises(HardwareRefusal, match=r"example.com/card did not answer within 0.5 s"):
            hanging.result()
    node.take("claim", "card-a")
    ended.set()


def test_a_plugin_that_dies_while_it_is_asked_is_a_refusal_and_can_come_back(node: HostedNode) -> None:
    def die_once(ids: Sequence[str]) -> Answer:
        if not died:
            died.append(ids)
            raise Crashed
        return Answer(envs={VISIBLE: ",".join(ids)})

    died: list[object] = []
    plugin = node.served(allocate=die_once)
    with pytest.raises(HardwareRefusal, match=CARD):
        node.give("claim", "card-a")
    assert comes_true(lambda: not node.ids())
    plugin.start()
    assert comes_true(lambda: node.ids() == BOTH)
    assert dict(node.give("claim", "card-a").env) == {VISIBLE: "card-a"}


def test_a_plugin_is_asked_for_one_claim_after_another(node: HostedNode) -> None:
    at_once: list[int] = []
    inside = threading.Semaphore(1)

    def count(ids: Sequence[str]) -> Answer:
        at_once.append(0 if inside.acquire(blocking=False) else 1)
        time.sleep(0.05)
        inside.release()
        return Answer(envs={VISIBLE: ",".join(ids)})

    node.served(allocate=count)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(node.give, f"claim-{card}", card) for card in sorted(BOTH)]:
            done.result()
    assert at_once == [0, 0]


# Plugins that refuse, or answer nonsense


def test_the_words_of_a_plugin_that_refuses_are_told(node: HostedNode) -> None:
    def refuse(_ids: Sequence[str]) -> Answer:
        raise Refused("card is locked by firmware")

    node.served(allocate=refuse)
    with pytest.raises(HardwareRefusal, match=r"example.com/card refused: UNKNOWN: card is locked by firmware"):
        node.give("claim", "card-a")
    assert node.ids() == BOTH


def test_a_plugin_that_looks_for_its_pod_is_not_asked_again_and_its_devices_say_why(node: HostedNode) -> None:
    def look(_ids: Sequence[str]) -> Answer:
        raise Refused("no binding pod found on node n1: pending pod")

    plugin = node.served(allocate=look)
    with pytest.raises(HardwareRefusal, match="looks for the pod itself"):
        node.give("claim", "card-a")
    assert comes_true(lambda: not node.ids())
    assert "looks for the pod itself" in node.health_of("card-b").message
    plugin.kill()
    plugin.start()
    assert comes_true(lambda: node.ids() == BOTH), "the vendor's plain plugin may have taken its place"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "answered for 0 containers"),
        (Answer(annotations={"com.intel.fpga.mode": "region"}), "wants the annotation com.intel.fpga.mode"),
        (Answer(devices=(FileOfDevice("/dev/no-such-card", "/dev/card"),)), "/dev/no-such-card"),
        (Answer(devices=(FileOfDevice("/etc/hostname", "/dev/card"),)), "no device node"),
        (Answer(devices=(FileOfDevice("dev/null", "/dev/card"),)), "is not absolute"),
        (Answer(devices=(FileOfDevice("/dev/null", "/dev/card", "rwx"),)), "no container starts: 'rwx'"),
        (Answer(devices=(FileOfDevice("/dev/null", "/dev/card", ""),)), "no container starts: ''"),
        (Answer(mounts=(FileOrFolder("/no/such/folder", "/opt"),)), "/no/such/folder"),
        (Answer(mounts=(FileOrFolder("/etc", "opt"),)), "is not absolute"),
        (Answer(envs={"A=B": "c"}), "A=B"),
        (Answer(cdi_devices=("vendor.com/card=nobody",)), "vendor.com/card=nobody"),
        (Answer(envs={f"LONG_{number}": "x" * 60_000 for number in range(5)}), "more than 262144 bytes"),
    ],
)
def test_what_a_claim_cannot_give_to_containers_is_refused(
    node: HostedNode, answer: Answer | None, message: str
) -> None:
    plugin = node.served(allocate=answering(answer))
    with pytest.raises((HardwareRefusal, Unsupported), match=CARD) as refused:
        node.give("claim", "card-a")
    assert message in str(refused.value)
    node.take("claim", "card-a")
    assert node.ids() == BOTH
    assert plugin.alive


def test_an_annotation_that_is_listed_as_harmless_is_left_out(make_node: MakeNode) -> None:
    node = make_node(settings=set_for_cards(harmlessAnnotations=["vendor.com/*"]))
    node.served(allocate=answering(Answer(envs={"A": "b"}, annotations={"vendor.com/mode": "x"})))
    assert dict(node.give("claim", "card-a").env) == {"A": "b"}


def test_a_card_that_went_between_the_plan_and_the_question_is_not_asked_for(node: HostedNode) -> None:
    """Some plugins answer for any ID, and some for cards that failed."""
    plugin = node.served()
    (action,) = node.hardware.actions(node.use("claim", "card-a"), ())
    plugin.fail("card-a")
    assert comes_true(lambda: node.ids() == {"card-b"})
    with pytest.raises(HardwareRefusal, match="reports card-a as unhealthy"):
        node.hardware.ensure(action)
    plugin.report(Listed("card-b"))
    assert comes_true(lambda: "any more" in node.health_of("card-a").message)
    with pytest.raises(CardGone, match="card-a"):
        node.hardware.ensure(action)
    assert not plugin.called("Allocate")


# What containers get


def test_devices_behind_links_and_in_folders_are_device_nodes(node: HostedNode, tmp_path: Path) -> None:
    (tmp_path / "by-path").mkdir()
    (tmp_path / "by-path/card").symlink_to("/dev/null")
    devices = (
        FileOfDevice(str(tmp_path / "by-path/card"), "/dev/card0", "r"),
        FileOfDevice("/dev/zero", "/dev/card0", "rw"),
        FileOfDevice("/dev/zero", "/dev/card1", "m"),
        FileOfDevice("/dev/full", "/dev/card2", "mrw"),
    )
    node.served(allocate=answering(Answer(devices=devices)))
    given = [(each.path, each.host_path, each.permissions) for each in node.give("claim", "card-a").device_nodes]
    assert given == [
        ("/dev/card0", "/dev/null", "r"),
        ("/dev/card1", "/dev/zero", "m"),
        ("/dev/card2", "/dev/full", "rwm"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(cdi_devices=("vendor.com/card=one", "vendor.com/card=two")),
        Answer(annotations={"cdi.k8s.io/plugin_claim": "vendor.com/card=one,vendor.com/card=two"}),
    ],
    ids=["in the field", "in an annotation"],
)
def test_cdi_names_are_what_the_specs_of_the_node_say_also_when_the_plugin_has_removed_them(
    make_node: MakeNode, tmp_path: Path, answer: Answer
) -> None:
    spec = tmp_path / "root/var/run/cdi/vendor.json"
    spec.parent.mkdir(parents=True)
    devices = [{"name": name, "containerEdits": {"env": [f"CARD_{name}=1"]}} for name in ("one", "two", "three")]
    kind = {"cdiVersion": "0.6.0", "kind": "vendor.com/card", "devices": devices, "containerEdits": {"env": ["ALL=1"]}}
    spec.write_text(json.dumps(kind))
    node = make_node(root=str(tmp_path / "root"))
    node.served(allocate=answering(answer))
    given = node.give("claim", "card-a")
    assert dict(given.env) == {"CARD_one": "1", "CARD_two": "1", "ALL": "1"}
    spec.unlink()
    assert node.give("claim", "card-a") == given


def test_mounts_are_bound_as_the_kubelet_would(node: HostedNode, tmp_path: Path) -> None:
    folders = (FileOrFolder("/etc", "/opt/etc"), FileOrFolder(str(tmp_path), "/data", read_only=False))
    node.served(allocate=answering(Answer(mounts=folders)))
    first, second = node.give("claim", "card-a").mounts
    assert (first.host_path, first.container_path, "ro" in first.options) == ("/etc", "/opt/etc", True)
    assert (second.container_path, "rw" in second.options, "rbind" in second.options) == ("/data", True, True)


def test_variables_that_are_to_be_the_pods_are_left_out(make_node: MakeNode) -> None:
    node = make_node(settings=set_for_cards(omitEnv=["LD_*"]))
    node.served(allocate=answering(Answer(envs={"LD_LIBRARY_PATH": "/vendor", "CARDS": "0"})))
    assert dict(node.give("claim", "card-a").env) == {"CARDS": "0"}


def test_a_plugin_that_wants_to_be_told_of_starts_is_told_once(node: HostedNode) -> None:
    plugin = node.served(pre_start_required=True)
    node.give("claim", "card-a", "card-b")
    node.give("claim", "card-a", "card-b")
    assert [call.ids for call in plugin.called("PreStartContainer")] == [("card-a", "card-b")]


def test_a_start_that_a_plugin_refuses_is_told(node: HostedNode) -> None:
    node.served(pre_start_required=True, pre_start_fails="reset failed")
    with pytest.raises(HardwareRefusal, match="reset failed"):
        node.give("claim", "card-a")


def test_tenants_of_a_card_get_replicas_of_their_own(node: HostedNode) -> None:
    plugin = node.served(devices=shares_of("GPU-a", 2))
    node.give("one", "GPU-a")
    node.give("two", "GPU-a")
    with pytest.raises(NoRoom, match="every ID of card"):
        node.give("three", "GPU-a")
    node.take("one", "GPU-a")
    node.give("three", "GPU-a")
    assert [call.ids for call in plugin.called("Allocate")] == [("GPU-a::0",), ("GPU-a::1",), ("GPU-a::0",)]


def test_plugins_of_two_resources_are_asked_apart(node: HostedNode) -> None:
    one = node.served()
    other = node.served(resource="example.com/other", endpoint="other.sock", reaction=Reaction.OWN_SOCKET_REMOVED)
    node.give("claim", "card-a")
    node.give("claim", "card-a", resource="example.com/other")
    assert [len(plugin.called("Allocate")) for plugin in (one, other)] == [1, 1]
