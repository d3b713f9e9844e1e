"""The slices of a node are what its cards are, whatever the API, the kubelet and the hardware do meanwhile."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

import pytest

from driver.errors import TransientFault
from driver.kube.api import NODES, RESOURCE_SLICES, Api, Conflict, Forbidden, Invalid, NotFound, Object, Unavailable
from driver.observe import Metrics
from driver.settings import KubeletPluginSettings, NodeLabels, Settings
from driver.wire import slice_from
from kubeletplugin.hardware import Card, CardState
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.hardware.steady import SteadyHealth
from kubeletplugin.kubelet_devices import KubeletDevices, PluginDevice
from kubeletplugin.offers import Recorded
from kubeletplugin.publish import Publisher, PublishingMetrics
from kubeletplugin.publish.pace import LONGEST_CONTEST_SECONDS
from memoryapi import MemoryApi
from simulation.clock import VirtualClock
from simulation.files import MemoryFiles

NODE = "node-a"
WRITES = ("create", "update", "delete")


class Journal:
    """Stands in for the log: event names with their fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = error = info

    def fields(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == event]


class Connection:
    """The API as one plugin reaches it: counts writes, and can fail them, lose answers or not store fields."""

    def __init__(self, api: MemoryApi):
        self._api = api
        self.writes: list[str] = []
        self.before: Callable[[str], None] = lambda _call: None
        self.after: Callable[[str], None] = lambda _call: None
        self.drop: Callable[[Object], None] = lambda _spec: None
        """Takes fields out of a spec between what is sent and what is stored, as a feature gate that is off does."""

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)

        def through(*arguments: Any, **options: Any) -> Any:
            self.before(name)
            if name in WRITES:
                self.writes.append(name)
            if name in ("create", "update"):
                arguments = deepcopy(arguments)
                self.drop(arguments[1]["spec"])
            answer = call(*arguments, **options)
            self.after(name)
            return answer

        return through


class Broken(SimulatedHardware):
    """Hardware that can stop answering, or answer nonsense."""

    silent = False
    present: tuple[Card, ...] | None = None
    hanging: frozenset[str] = frozenset()
    """The uuids of cards that do not answer questions about what is on them."""

    def observe(self, card: Card) -> CardState:
        if card.uuid in self.hanging:
            raise TransientFault(f"card {card.uuid} does not answer")
        return super().observe(card)

    def cards(self) -> tuple[Card, ...]:
        if self.silent:
            raise TransientFault("driver: device is resetting")
        return super().cards() if self.present is None else self.present


class Rig:
    """One node: the API, the hardware and the clock outlive the publishers started on them."""

    def __init__(self, profile: str = "a100x4", **section: Any):
        self.clock = VirtualClock()
        self.memory = MemoryApi(self.clock)
        self.files = MemoryFiles()
        self.settings = Settings(kubeletplugin=KubeletPluginSettings(**section))
        self.hardware = Broken(load_profile(profile, self.files), NODE, self.files, "/faults")
        self.journal = Journal()
        self.recorded = Recorded()
        self.kubelet: KubeletDevices | None = None

    def node(self, **labels: str) -> None:
        metadata = {"name": NODE, "labels": labels}
        self.memory.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    def start(self) -> "Running":
        return Running(self)

    def slices(self) -> list[Object]:
        return list(self.memory.list(RESOURCE_SLICES).items)

    def devices(self) -> dict[str, Object]:
        return {d["name"]: d for item in self.slices() for d in item["spec"].get("devices", ())}

    def generations(self) -> set[int]:
        return {item["spec"]["pool"]["generation"] for item in self.slices()}

    def wipe(self) -> None:
        for item in self.slices():
            self.memory.delete(RESOURCE_SLICES, item["metadata"]["name"])


class Running:
    """A publisher at work, with its own connection."""

    def __init__(self, rig: Rig):
        self.rig = rig
        self.api = Connection(rig.memory)
        self.metrics = Metrics()
        self.publisher = Publisher(
            cast("Api", self.api),
            rig.clock,
            NODE,
            rig.settings,
            rig.hardware,
            PublishingMetrics(self.metrics),
            rig.journal,
            recorded=lambda: rig.recorded,
            kubelet=lambda: rig.kubelet,
        )

    def hear(self) -> None:
        for reflector in self.publisher.reflectors:
            reflector.step()

    def run(self, seconds: float = 1.0) -> None:
        """Listen and step for a while."""
        end = self.rig.clock.monotonic() + seconds
        while self.rig.clock.monotonic() <= end:
            self.hear()
            self.publisher.step()
            self.rig.clock.advance(0.05)

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def running(profile: str = "a100x4", **section: Any) -> tuple[Rig, Running]:
    rig = Rig(profile, **section)
    rig.node()
    one = rig.start()
    one.run()
    return rig, one


def test_a_node_publishes_its_cards_under_its_own_name_and_owned_by_its_node() -> None:
    rig, one = running()
    assert len(rig.devices()) == 80
    node = rig.memory.get(NODES, NODE)
    for item in rig.slices():
        assert item["spec"]["nodeName"] == NODE
        assert item["spec"]["pool"] == {"name": "node-a/lode.dev", "generation": 1, "resourceSliceCount": 3}
        (owner,) = item["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Node", node["metadata"]["uid"], True)
    assert one.publisher.published


def test_a_node_without_cards_publishes_one_empty_slice() -> None:
    rig, _ = running("")
    (item,) = rig.slices()
    assert item["spec"].get("devices", []) == []


def test_nothing_is_written_while_the_node_does_not_exist() -> None:
    rig = Rig()
    one = rig.start()
    one.run()
    assert one.api.writes == []
    assert one.publisher.next_due() is None
    rig.node()
    one.run()
    assert len(rig.devices()) == 80


def of_first(rig: Rig) -> set[str]:
    return {name for name in rig.devices() if name == "gpu-0" or name.startswith("gpu-0-")}


def slices_left(rig: Rig, card: str) -> list[str]:
    """The published counters of a card's memory slices."""
    (found,) = (
        each for part in rig.slices() for each in part["spec"].get("sharedCounters", ()) if each["name"] == card
    )
    return [found["counters"][f"memory-slice-{index}"]["value"] for index in range(8)]


def test_what_somebody_else_made_on_a_card_narrows_its_offer_until_it_is_gone() -> None:
    rig, one = running()
    all_of_it = of_first(rig)
    first, second, *_ = rig.hardware.cards()
    for action in (MigMode(first.uuid), MigInstance(first.uuid, "3g.20gb", 4)):
        rig.hardware.ensure(action)
    one.run(10)
    assert of_first(rig) == all_of_it, "a claim may have been allocated any of it"
    assert slices_left(rig, first.name) == [*"11110000"]
    assert slices_left(rig, second.name) == [*"11111111"]
    assert rig.journal.fields("card is not offered as everything")[0]["card"] == "gpu-0"
    rig.hardware.release(MigInstance(first.uuid, "3g.20gb", 4), None)
    one.run(10)
    assert of_first(rig) == {name for name in all_of_it if "-mig-" in name}
    rig.hardware.release(MigMode(first.uuid), None)
    one.run(10)
    assert of_first(rig) == all_of_it


def test_what_is_made_for_claims_changes_no_slice() -> None:
    rig, one = running()
    one.api.writes.clear()
    card = rig.hardware.cards()[0]
    actions = MigMode(card.uuid), MigInstance(card.uuid, "1g.5gb", 6)
    rig.recorded = Recorded(frozenset(action.key for action in actions))
    for action in actions:
        rig.hardware.ensure(action)
        one.run(6)
    for action in reversed(actions):
        rig.hardware.release(action, None)
        one.run(6)
    assert one.api.writes == []


def test_a_card_that_does_not_say_what_is_on_it_is_offered_as_before() -> None:
    rig, one = running()
    first, second, *_ = rig.hardware.cards()
    rig.hardware.ensure(MigMode(first.uuid))
    one.run(10)
    assert "gpu-0" not in rig.devices()
    rig.hardware.hanging = frozenset({first.uuid})
    rig.hardware.release(MigMode(first.uuid), None)
    rig.hardware.ensure(MigMode(second.uuid))
    one.run(10)
    assert {"gpu-0", "gpu-1"} & rig.devices().keys() == set()
    rig.hardware.hanging = frozenset()
    one.run(10)
    assert {"gpu-0", "gpu-1"} & rig.devices().keys() == {"gpu-0"}


def taints(rig: Rig) -> set[str]:
    return {taint["key"] for device in rig.devices().values() for taint in device.get("taints", ())}


def test_cards_that_a_device_plugin_hands_out_are_tainted_until_it_is_gone() -> None:
    rig, one = running()
    for amount, expected in (("4", {"lode.dev/other-driver"}), ("0", set())):
        node = rig.memory.get(NODES, NODE)
        node["status"] = {"allocatable": {"nvidia.com/gpu": amount, "cpu": "64"}}
        rig.memory.update(NODES, node, "status")
        one.run(1)
        assert taints(rig) == expected
    (line,) = rig.journal.fields("cards are handed out by another driver")
    assert line["by"] == "the device plugin of nvidia.com/gpu"
    assert "remove that driver" in line["remedy"]


def test_only_the_cards_that_the_kubelet_names_are_tainted_and_pods_that_run_on_keep_theirs() -> None:
    rig, one = running()
    uuids = [card.uuid for card in rig.hardware.cards()]
    offered = frozenset(PluginDevice("nvidia.com/gpu", uuid) for uuid in uuids[:2])
    used = frozenset(PluginDevice("nvidia.com/gpu", uuid) for uuid in uuids[:1])

    def tainted(devices: int) -> set[str]:
        node = rig.memory.get(NODES, NODE)
        rig.memory.update(NODES, node | {"status": {"capacity": {"nvidia.com/gpu": str(devices)}}}, "status")
        one.run(10)
        return {name.split("-")[1] for name, device in rig.devices().items() if device.get("taints")}

    rig.kubelet = KubeletDevices(offered, used)
    assert tainted(2) == {"0", "1"}
    rig.kubelet = KubeletDevices(used=used)
    assert tainted(0) == {"0"}, "the device plugin is gone, and a pod of it runs"
    rig.kubelet = KubeletDevices()
    assert tainted(0) == set()


@pytest.mark.parametrize(
    ("driver", "expected"), [("gpu.nvidia.com", {"lode.dev/other-driver"}), ("net.example", set())]
)
def test_cards_that_a_dra_driver_hands_out_are_tainted_until_it_is_gone(driver: str, expected: set[str]) -> None:
    rig, one = running()
    pool = {"name": "theirs", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": NODE, "pool": pool, "devices": [{"name": "theirs-0"}]}
    theirs = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "theirs"}, "spec": spec}
    rig.memory.create(RESOURCE_SLICES, theirs)
    one.run(1)
    own = {name for name, device in rig.devices().items() if device.get("attributes")}
    assert len(own) == 80
    assert taints(rig) == expected
    assert rig.memory.get(RESOURCE_SLICES, "theirs")["spec"]["driver"] == driver, "it is never written"
    rig.memory.delete(RESOURCE_SLICES, "theirs")
    one.run(1)
    assert taints(rig) == set()


def test_real_cards_of_another_driver_do_not_concern_simulated_ones() -> None:
    rig = Rig(hardware="simulated")
    rig.node()
    node = rig.memory.get(NODES, NODE)
    node["status"] = {"allocatable": {"nvidia.com/gpu": "8"}}
    rig.memory.update(NODES, node, "status")
    rig.start().run(1)
    assert taints(rig) == set()


def test_when_all_is_published_nothing_more_is_written() -> None:
    rig, one = running()
    one.api.writes.clear()
    one.run(30)
    two = rig.start()
    two.run(30)
    assert (one.api.writes, two.api.writes) == ([], [])


def test_two_instances_starting_at_once_publish_one_and_the_same_pool() -> None:
    rig = Rig()
    rig.node()
    one, two = rig.start(), rig.start()
    for instance in (one, two):
        instance.hear()
    for _ in range(100):
        one.run(0)
        two.run(0)
    assert len(rig.devices()) == 80
    assert rig.generations() == {1}
    assert one.publisher.published
    assert two.publisher.published


def test_a_rolling_update_whose_instances_want_other_slices_ends() -> None:
    rig, one = running("a100x4")
    rig.hardware = Broken(load_profile("t4x2", rig.files), NODE, rig.files, "/faults")
    two = rig.start()
    two.run()
    ready, owners = [], set()
    for _ in range(1200):
        one.run(0)
        owners.add(len(rig.devices()))
        two.run(0)
        owners.add(len(rig.devices()))
        ready.append(two.publisher.published)
    assert owners == {80, 4}, "each overwrites what the other has written"
    assert all(ready), "what the DaemonSet's controller waits for before it ends the first"
    two.run(LONGEST_CONTEST_SECONDS)
    assert len(rig.devices()) == 4


def test_labels_of_the_node_become_attributes_and_changes_follow() -> None:
    rig = Rig("t4x2", node_labels=NodeLabels(ib_cluster="fabric"))
    rig.node(fabric="west")
    one = rig.start()
    one.run()
    assert rig.devices()["gpu-0"]["attributes"]["ibCluster"] == {"string": "west"}
    rig.memory.patch(NODES, NODE, {"metadata": {"labels": {"fabric": "east"}}})
    one.run()
    assert {d["attributes"]["ibCluster"]["string"] for d in rig.devices().values()} == {"east"}


def test_a_change_of_the_node_that_says_nothing_new_is_not_even_looked_at() -> None:
    rig, one = running("t4x2")
    due = one.publisher.next_due()
    rig.memory.patch(NODES, NODE, {"metadata": {"annotations": {"heartbeat": "1"}}})
    one.hear()
    assert one.publisher.next_due() == due


def test_slices_wiped_by_the_kubelet_are_back_within_a_second() -> None:
    rig, one = running()
    rig.wipe()
    one.run()
    assert len(rig.devices()) == 80
    assert one.publisher.published


def test_part_of_the_slices_wiped_is_made_again_and_the_rest_left_alone() -> None:
    rig, one = running()
    rig.memory.delete(RESOURCE_SLICES, rig.slices()[1]["metadata"]["name"])
    one.api.writes.clear()
    one.run()
    assert one.api.writes == ["create"]
    assert len(rig.devices()) == 80


def test_registration_makes_it_publish_at_once_even_in_a_pause_after_errors() -> None:
    rig, one = running("t4x2")
    one.api.before = failing(Unavailable("no route", status=0), "create")
    rig.wipe()
    one.run(40)
    one.api.before = failing(None)
    one.publisher.republish_now()
    one.run(0)
    assert len(rig.devices()) == 4


def failing(error: Exception | None, *calls: str) -> Callable[[str], None]:
    def before(call: str) -> None:
        if error and call in (calls or WRITES):
            raise error

    return before


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("timeout"),
        Conflict("changed", status=409),
        Forbidden("no", status=403),
        Invalid("spec.devices[0].name: no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failed_write_is_tried_again_ever_more_slowly_until_it_succeeds(error: Exception) -> None:
    rig = Rig("t4x2")
    rig.node()
    one = rig.start()
    one.api.before = failing(error)
    one.run(120)
    attempts = int(one.sample("lode_slice_writes_total", operation="create", outcome=type(error).__name__))
    assert 5 <= attempts <= 10
    assert not one.publisher.published
    one.api.before = failing(None)
    one.run(61)
    assert len(rig.devices()) == 4


def test_a_refusal_says_which_field_and_leaves_what_is_published() -> None:
    rig, one = running("t4x2")
    before = rig.devices()
    one.api.before = failing(Invalid('spec.devices[0].name: Invalid value: "gpu_0"', status=422))
    rig.files.write("/faults/gpu-0", b"Xid 79")
    one.run(10)
    assert rig.devices() == before
    assert "spec.devices[0].name" in rig.journal.fields("cannot write slices")[0]["reason"]


def test_an_inventory_that_breaks_a_rule_is_never_sent_and_leaves_what_is_published() -> None:
    rig, _ = running("t4x2")
    before = rig.slices()
    card = rig.hardware.cards()[0]
    rig.hardware.present = (card, card)
    two = rig.start()
    two.run(5)
    assert rig.slices() == before
    assert two.api.writes == []
    (fault, _) = rig.journal.fields("inventory is not valid")[:2]
    assert "gpu-0" in fault["field"]


def test_a_write_whose_answer_was_lost_is_found_and_not_repeated() -> None:
    rig = Rig("t4x2")
    rig.node()
    one = rig.start()
    lost: list[str] = []

    def lose(call: str) -> None:
        if call == "create" and not lost:
            lost.append(call)
            raise Unavailable("connection reset")

    one.api.after = lose
    one.hear()
    for _ in range(60):
        # The watch is silent: all that is known comes from answers.
        one.publisher.step()
        rig.clock.advance(0.1)
    assert len(rig.devices()) == 4
    assert rig.generations() == {1}
    assert one.publisher.published


def test_a_plugin_killed_after_any_write_is_finished_by_the_next() -> None:
    class Killed(BaseException):
        pass

    for survived in range(4):
        rig = Rig()
        rig.node()
        one = rig.start()

        def kill(call: str, one: Running = one, survived: int = survived) -> None:
            if call in WRITES and len(one.api.writes) == survived:
                raise Killed

        one.api.before = kill
        if survived < 3:
            with pytest.raises(Killed):
                one.run()
        rig.start().run()
        assert len(rig.devices()) == 80


def test_an_unhealthy_card_is_tainted_until_it_is_well_again() -> None:
    rig, one = running("t4x2")
    rig.files.write("/faults/gpu-1", b"Xid 79")
    one.run(6)
    taints = {name: [t["key"] for t in device.get("taints", ())] for name, device in rig.devices().items()}
    assert taints == {
        "gpu-0": [],
        "gpu-0-share": [],
        "gpu-1": ["lode.dev/unhealthy"],
        "gpu-1-share": ["lode.dev/unhealthy"],
    }
    assert one.sample("lode_cards", health="unhealthy") == 1
    assert rig.journal.fields("card health changed")[0]["reason"] == "Xid 79"
    rig.files.remove("/faults/gpu-1")
    one.run(6)
    assert not any(device.get("taints") for device in rig.devices().values())


def test_hardware_that_gives_no_answer_leaves_what_is_published() -> None:
    rig, one = running("t4x2")
    before = rig.slices()
    rig.hardware.silent = True
    one.run(30)
    assert rig.slices() == before
    rig.hardware.silent = False
    rig.wipe()
    one.run(61)
    assert len(rig.devices()) == 4


def test_fields_the_server_drops_are_reported_once_and_not_sent_for_ever() -> None:
    def no_taints(spec: Object) -> None:
        for device in spec.get("devices", ()):
            device.pop("taints", None)

    rig, one = running("t4x2")
    one.api.drop = no_taints
    rig.files.write("/faults/gpu-1", b"Xid 79")
    one.run(6)
    writes = len(one.api.writes)
    one.run(120)
    assert len(one.api.writes) == writes
    assert [entry["field"] for entry in rig.journal.fields("field not stored by the API server")] == [
        "spec.devices[].taints"
    ]
    assert one.sample("lode_slice_dropped_fields_total", field="devices[].taints") == 1
    assert one.publisher.published


def test_without_counters_each_card_is_offered_as_one_kind_because_nothing_keeps_two_apart() -> None:
    def no_counters(spec: Object) -> None:
        spec.pop("sharedCounters", None)
        for device in spec.get("devices", ()):
            device.pop("consumesCounters", None)

    rig = Rig("a100x4")
    rig.node()
    one = rig.start()
    one.api.drop = no_counters
    seen: list[set[str]] = []
    for _ in range(100):
        one.run(0)
        seen.append(set(rig.devices()))
    assert set(rig.devices()) == {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}
    assert all(names <= {"gpu-0", "gpu-1", "gpu-2", "gpu-3"} for names in seen)
    assert one.publisher.published


def test_two_plugins_that_disagree_overrule_each_other_ever_more_slowly() -> None:
    rig, one = running("t4x2")
    rig.settings = Settings(kubeletplugin=KubeletPluginSettings(offer=("whole",)))
    two = rig.start()
    for _ in range(1200):
        for instance in (one, two):
            instance.hear()
            instance.publisher.step()
        rig.clock.advance(0.05)
    assert len(one.api.writes) + len(two.api.writes) < 60


def test_a_card_that_nothing_is_offered_of_is_said_once() -> None:
    rig, one = running("t4x2", offer=("partitions",))
    one.run(20)
    assert [entry["card"] for entry in rig.journal.fields("card is not offered")] == ["gpu-0", "gpu-1"]
    assert rig.devices() == {}


def test_a_slice_of_another_driver_that_has_our_name_is_left_alone_and_said() -> None:
    rig = Rig("t4x2")
    rig.node()
    spec = {
        "driver": "other.example.com",
        "nodeName": NODE,
        "pool": {"name": "x", "generation": 1, "resourceSliceCount": 1},
        "devices": [],
    }
    name = "node-a-lode.dev-counters-000"
    foreign = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    rig.memory.create(RESOURCE_SLICES, foreign)
    one = rig.start()
    one.run(10)
    assert rig.memory.get(RESOURCE_SLICES, name)["spec"]["driver"] == "other.example.com"
    (said,) = rig.journal.fields("slice name is taken by another driver or node")
    assert said["driver"] == "other.example.com"


def test_obsolete_slices_of_ours_are_removed() -> None:
    rig, _ = running("h100x8")
    rig.hardware = Broken(load_profile("t4x2", rig.files), NODE, rig.files, "/faults")
    rig.start().run()
    assert set(rig.devices()) == {"gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"}
    assert {slice_from(item).slice_count for item in rig.slices()} == {2}
    assert len(rig.slices()) == 2


def test_a_slice_deleted_by_another_instance_meanwhile_is_no_error() -> None:
    rig, _ = running("h100x8")
    rig.hardware = Broken(load_profile("t4x2", rig.files), NODE, rig.files, "/faults")
    two = rig.start()
    two.hear()
    for item in rig.slices():
        if item["metadata"]["name"].endswith("devices-002"):
            rig.memory.delete(RESOURCE_SLICES, item["metadata"]["name"])
    two.run()
    with pytest.raises(NotFound):
        rig.memory.get(RESOURCE_SLICES, "node-a-lode.dev-devices-002")
    assert set(rig.devices()) == {"gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"}


def test_metrics_count_what_is_published() -> None:
    _, one = running("ascend310px4")
    assert one.sample("lode_devices", kind="npu") == 4
    assert one.sample("lode_devices", kind="vnpu") == 80
    assert one.sample("lode_cards", health="healthy") == 4
    assert one.sample("lode_pool_generation") == 1
    assert one.sample("lode_slice_writes_total", operation="create", outcome="ok") == 3


@pytest.mark.parametrize(
    ("label", "offered"),
    [
        ("whole", {"gpu-0", "gpu-1"}),
        ("share-whole", {"gpu-0", "gpu-1", "gpu-0-share", "gpu-1-share"}),
        ("", {"gpu-0-share", "gpu-1-share"}),
    ],
)
def test_the_nodes_label_chooses_what_its_cards_are_offered_as(label: str, offered: set[str]) -> None:
    rig, one = running("t4x2", offer=("share",))
    rig.memory.patch(NODES, NODE, {"metadata": {"labels": {"lode.dev/offer": label}}})
    one.run(2)
    assert set(rig.devices()) == offered


@pytest.mark.parametrize("label", ["hole", "whole-whole", "whole-", "whole_share"])
def test_a_label_that_is_not_valid_is_said_once_and_the_setting_counts(label: str) -> None:
    rig, one = running("t4x2", offer=("share",))
    rig.memory.patch(NODES, NODE, {"metadata": {"labels": {"lode.dev/offer": label}}})
    one.run(60)
    assert set(rig.devices()) == {"gpu-0-share", "gpu-1-share"}
    (said,) = rig.journal.fields("node label is not valid and ignored")
    assert (said["label"], said["value"]) == ("lode.dev/offer", label)
    assert "whole, share, partitions" in said["remedy"]


def test_a_card_that_toggles_does_not_have_the_slices_written_again_and_again() -> None:
    rig = Rig("h100x8")
    rig.hardware = cast("Broken", SteadyHealth(rig.hardware, rig.clock, 60))
    rig.node()
    one = rig.start()
    one.run(1)
    one.api.writes.clear()
    for number in range(120):
        if number % 2:
            rig.files.remove("/faults/gpu-3")
        else:
            rig.files.write("/faults/gpu-3", b"Xid 63")
        one.run(5.2)
    assert 0 < len(one.api.writes) <= len(rig.slices())
