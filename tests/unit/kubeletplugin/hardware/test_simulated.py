"""A simulated node has the cards its profile says, or says everything that is wrong with the profile."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from driver.errors import InvalidInput, TransientFault
from driver.files import SystemFiles
from driver.limits import MAX_HEALTH_MESSAGE
from driver.parameters import GpuConfig
from kubeletplugin.hardware import Unsupported, Use
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.hardware.simulated import FileStore, SimulatedHardware, load_profile, profile_from, shipped_profiles
from tests.simulation.files import MemoryFiles

CARD = """
  - index: 0
    vendor: nvidia
    type: T4
    model: Tesla T4
    architecture: Turing
    memoryMiB: 15360
    pciBusID: "0000:3b:00.0"
    pcieRoot: "pci0000:3a"
    driverVersion: "580.65.06"
"""


def hardware(name: str, node: str = "node-a", files: MemoryFiles | None = None) -> SimulatedHardware:
    return SimulatedHardware(load_profile(name, MemoryFiles()), node, files, "/faults")


@pytest.mark.parametrize(
    ("name", "count", "kind", "numa", "rails"),
    [
        ("h100x8", 8, "H100", {0, 1}, {"rail-0", "rail-1"}),
        ("a100x4", 4, "A100", {0, 1}, {""}),
        ("t4x2", 2, "T4", {None}, {""}),
        ("ascend910bx8", 8, "910B", {0, 1}, {""}),
        ("ascend310px4", 4, "310P", {0, 1}, {""}),
    ],
)
def test_the_shipped_profiles_hold(name: str, count: int, kind: str, numa: set[int | None], rails: set[str]) -> None:
    cards = hardware(name).cards()
    assert [card.index for card in cards] == list(range(count))
    assert {card.type for card in cards} == {kind}
    assert {card.numa_node for card in cards} == numa
    assert {card.rail for card in cards} == rails


def test_every_shipped_profile_is_listed() -> None:
    files = (Path(__file__).parents[4] / "kubeletplugin/hardware/profiles").glob("*.yaml")
    assert shipped_profiles() == tuple(sorted(path.stem for path in files))


def test_the_profile_of_device_plugins_has_cards_and_an_adapter_with_slots() -> None:
    cards = hardware("mi300x8").cards()
    gpus = [card for card in cards if card.type == "MI300X"]
    (adapter,) = [card for card in cards if card not in gpus]
    assert len(gpus) == 8
    assert {(card.model, card.memory_mib) for card in gpus} == {("AMD Instinct MI300X OAM", 192 * 1024)}
    assert {card.numa_node for card in gpus} == {0, 1}
    assert gpus[0].pci_bus_id
    assert gpus[0].pcie_root
    assert adapter.bridged
    assert (adapter.type, adapter.bridged.is_shared, len(adapter.bridged.ids)) == ("ConnectX-7", True, 8)


def of_plugin(resource: str = "example.com/fpga", **entry: object) -> str:
    return yaml.safe_dump({"devicePlugins": {resource: {"devices": [{"id": "0"}], **entry}}})


def test_a_profile_can_have_cards_and_devices_of_device_plugins() -> None:
    found = profile_from(f"cards:{CARD}" + of_plugin(), "mixed").cards
    assert [card.unit for card in found] == ["device", "gpu"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("devicePlugins: []", "must be a mapping of resources"),
        (of_plugin("fpga"), "devicePlugins[fpga]: is not the name of an extended resource"),
        (of_plugin("volcano.sh/vgpu-number"), "looks for the pod itself"),
        (of_plugin(devices=[]), "devices: Tuple should have at least 1 item"),
        (of_plugin(devices=[{"id": "0"}, {"id": "0"}]), "duplicate id: '0'"),
        (of_plugin(devices=[{"id": "0", "numa": 1}]), "Extra inputs are not permitted"),
        (of_plugin(settings={"idPattern": "("}), "is not a regular expression"),
    ],
)
def test_what_is_wrong_with_a_device_plugin_of_a_profile_is_told(text: str, fault: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        profile_from(text, "profile mine")
    assert fault in str(refused.value)


def test_a_device_of_a_device_plugin_has_no_variable_and_no_strategy_of_sharing() -> None:
    simulated = hardware("mi300x8")
    card = simulated.cards()[0]
    edits = simulated.edits(Use("claim", card), {})
    assert (edits.env, [node.path for node in edits.device_nodes]) == ((), [f"/dev/lode/{card.name}"])
    with pytest.raises(Unsupported, match="of a device plugin"):
        simulated.actions(Use("claim", card, config=GpuConfig(sharing="timeSlicing")), ())


def test_uuids_differ_between_cards_and_nodes_and_never_change() -> None:
    of_a = [card.uuid for card in hardware("h100x8", "node-a").cards()]
    of_b = [card.uuid for card in hardware("h100x8", "node-b").cards()]
    assert len({*of_a, *of_b}) == 16
    assert [card.uuid for card in hardware("h100x8", "node-a").cards()] == of_a


def test_no_profile_means_no_cards() -> None:
    assert hardware("").cards() == ()


def test_a_profile_can_be_a_file_of_the_operator() -> None:
    files = MemoryFiles()
    files.write("/etc/lode/mine.yaml", f"cards:{CARD}".encode())
    (card,) = load_profile("/etc/lode/mine.yaml", files).cards
    assert (card.name, card.memory_mib, card.scheme) == ("gpu-0", 15360, None)


def test_a_profile_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(InvalidInput, match=r"h200x8.*h100x8"):
        load_profile("h200x8", MemoryFiles())
    with pytest.raises(InvalidInput, match="file not found"):
        load_profile("/etc/lode/absent.yaml", MemoryFiles())


def test_all_faults_of_a_profile_are_reported_at_once() -> None:
    text = """
nodes: 3
defaults:
  {vendor: nvidia, type: T4, model: Tesla T4, architecture: Turing, memoryMiB: 15360, driverVersion: "1",
   pcieRoot: "pci0000:3a"}
cards:
  - {index: 0, uuid: GPU-1, pciBusID: "0000:3b:00.0"}
  - {index: 0, uuid: GPU-1, pciBusID: "0000:3b:00.0", colour: red}
  - {index: 1, uuid: GPU-2, pciBusID: "00000000:3B:00.0", partitions: mig-t4}
  - {index: 2, pciBusID: "0000:3d:00.0", memoryMiB: -1, model: "%s"}
""" % ("m" * 65)
    with pytest.raises(InvalidInput) as caught:
        profile_from(text, "profile mine")
    fields = [fault.field for fault in caught.value.faults]
    assert fields == [
        "nodes",
        "cards[1].colour",
        "cards[2].pciBusID",
        "cards[2].partitions",
        "cards[3].model",
        "cards[3].memoryMiB",
        "cards[1].index",
        "cards[1].uuid",
        "cards[1].pciBusID",
    ]
    assert "mig-a100-40gb" in str(caught.value)


def test_a_gpu_and_an_npu_may_have_the_same_index() -> None:
    npu = CARD.replace("nvidia", "huawei").replace("3b:00", "3c:00")
    assert [card.name for card in profile_from(f"cards:{CARD}{npu}", "mixed").cards] == ["gpu-0", "npu-0"]


@pytest.mark.parametrize("text", ["- 1", "cards: 7", "cards: [", "defaults: []\ncards: {}", ""])
def test_what_is_no_profile_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        profile_from(text, "profile mine")


def test_a_card_is_unhealthy_while_its_fault_file_lies_there() -> None:
    files = MemoryFiles()
    simulated = hardware("t4x2", files=files)
    assert all(state.healthy for state in simulated.health().values())
    files.write("/faults/gpu-1", b"Xid 79\n")
    files.write("/faults/gpu-7", b"no such card")
    assert {name: (s.healthy, s.message) for name, s in simulated.health().items()} == {
        "gpu-0": (True, ""),
        "gpu-1": (False, "Xid 79"),
    }
    files.remove("/faults/gpu-1")
    assert simulated.health()["gpu-1"].healthy


def test_the_reason_of_a_fault_is_as_long_as_the_kubelet_takes_it() -> None:
    files = MemoryFiles()
    files.write("/faults/gpu-0", b"x" * 5_000)
    assert len(hardware("t4x2", files=files).health()["gpu-0"].message) == MAX_HEALTH_MESSAGE


def test_a_faults_directory_that_cannot_be_read_is_a_transient_fault() -> None:
    def fail(operation: str, path: str) -> None:
        raise PermissionError(path)

    with pytest.raises(TransientFault, match="/faults"):
        hardware("t4x2", files=MemoryFiles(fail)).health()


def test_a_container_sees_the_null_device_under_the_name_of_what_it_holds() -> None:
    simulated = hardware("a100x4")
    card = simulated.cards()[2]
    assert card.scheme
    (whole,) = simulated.edits(Use("claim", card), {}).device_nodes
    (part,) = simulated.edits(Use("claim", card, card.scheme.partitions[0]), {}).device_nodes
    assert (whole.path, part.path) == ("/dev/lode/gpu-2", "/dev/lode/gpu-2-mig-1g-5gb-6")
    assert {(node.host_path, node.major, node.minor) for node in (whole, part)} == {("/dev/null", 1, 3)}


def test_two_instances_of_the_plugin_lose_nothing_of_each_other(tmp_path: Path) -> None:
    def make(number: int) -> None:
        store = FileStore(SystemFiles(), str(tmp_path / "simulated.json"), "boot")
        hardware = SimulatedHardware(load_profile("a100x4", MemoryFiles()), "n1", store=store)
        card = hardware.cards()[number % 4]
        hardware.ensure(MigMode(card.uuid))
        hardware.ensure(MigInstance(card.uuid, "1g.5gb", number // 4))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(make, range(16)))
    existing = FileStore(SystemFiles(), str(tmp_path / "simulated.json"), "boot").load().existing
    assert len(existing) == 4 + 16
    assert [file.name for file in tmp_path.iterdir()] == ["simulated.json"], "nothing else is left on the node"
