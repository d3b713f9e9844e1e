"""What NVML and the kernel say becomes cards, whatever the driver lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kubeletplugin.hardware import Card
from kubeletplugin.hardware.nvidia.found import Finder
from kubeletplugin.hardware.nvidia.nvml.library import Nvml, NvmlError
from kubeletplugin.hardware.simulated import load_profile
from kubeletplugin.hardware.sysfs import Sysfs
from tests.fakes.nvml import FakeNvml
from tests.fakes.nvml.models import A30, A100, B200, GB200, H100, H200, L4, L40S, T4, V100, Model
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles

# What a driver need not have: every function but those without which there is no card.
OPTIONAL = [
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
]
NOT_SUPPORTED, GPU_IS_LOST, UNKNOWN_ERROR = 3, 15, 999


def sysfs(folder: Path, bus_id: str = "0000:18:00.0", numa: str = "1") -> Sysfs:
    device = folder / "devices/pci0000:15/0000:15:01.0" / bus_id
    device.mkdir(parents=True)
    (device / "numa_node").write_text(f"{numa}\n")
    links = folder / "bus/pci/devices"
    links.mkdir(parents=True)
    (links / bus_id).symlink_to(device)
    return Sysfs(str(folder))


def finder(nvml: Nvml, folder: Path) -> Finder:
    return Finder(nvml, sysfs(folder / "sys"), VirtualClock())


def only(nvml: Nvml, folder: Path) -> Card:
    (card,) = finder(nvml, folder).find().cards
    return card


@pytest.mark.parametrize(
    ("model", "family", "architecture", "partitions"),
    [
        (V100, "V100", "Volta", 0),
        (T4, "T4", "Turing", 0),
        (A30, "A30", "Ampere", 13),
        (A100, "A100", "Ampere", 25),
        (L4, "L4", "Ada Lovelace", 0),
        (L40S, "L40S", "Ada Lovelace", 0),
        (H100, "H100", "Hopper", 25),
        (H200, "H200", "Hopper", 25),
        (B200, "B200", "Blackwell", 25),
        (GB200, "GB200", "Blackwell", 25),
    ],
    ids=lambda value: value.name if isinstance(value, Model) else None,
)
def test_every_generation_is_found_with_all_that_is_published_about_it(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path, *, model: Model, family: str, architecture: str, partitions: int
) -> None:
    fake.add(model, minor=3, uuid="GPU-1")
    card = only(nvml, tmp_path)
    assert (card.name, card.index, card.uuid, card.vendor) == ("gpu-3", 3, "GPU-1", "nvidia")
    assert (card.type, card.model, card.architecture) == (family, model.name, architecture)
    assert (card.memory_mib, card.compute_capability) == (model.memory_mib, f"{model.capability}.0")
    assert (card.driver_version, card.cuda_version) == ("580.65.06", "13.0.0")
    assert (card.pci_bus_id, card.pcie_root, card.numa_node) == ("0000:18:00.0", "pci0000:15", 1)
    assert len(card.scheme.partitions if card.scheme else ()) == partitions


def test_a_card_of_an_unknown_model_is_published_as_its_driver_describes_it(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    fake.add(Model("NVIDIA X900-NVL", 500000, 77, "19.0"))
    card = only(nvml, tmp_path)
    assert (card.type, card.architecture, card.memory_mib, card.compute_capability) == (
        "X900",
        "unknown",
        500000,
        "19.0.0",
    )


@pytest.mark.parametrize("missing", OPTIONAL)
def test_a_function_that_the_driver_lacks_leaves_an_unknown_value_and_no_more(
    fake: FakeNvml, tmp_path: Path, missing: str
) -> None:
    fake.add(H100, uuid="GPU-1")
    card = only(Nvml(str(fake.library([missing]))), tmp_path)
    assert (card.uuid, card.index) == ("GPU-1", 0)


def test_a_driver_that_says_nothing_but_a_uuid_gives_a_card_of_unknown_values(fake: FakeNvml, tmp_path: Path) -> None:
    fake.add(H100, uuid="GPU-1")
    card = only(Nvml(str(fake.library(OPTIONAL))), tmp_path)
    assert card == Card(
        index=0,
        uuid="GPU-1",
        vendor="nvidia",
        type="unknown",
        model="unknown",
        architecture="unknown",
        memory_mib=0,
        pci_bus_id="",
        pcie_root="",
        driver_version="unknown",
    )


@pytest.mark.parametrize("function", [name for name in OPTIONAL if name.startswith("nvmlDevice")])
@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN_ERROR])
def test_a_value_that_the_driver_refuses_leaves_an_unknown_value_and_no_more(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path, function: str, code: int
) -> None:
    fake.add(H100, uuid="GPU-1")
    fake.change({f"fault.{function}": code})
    found = finder(nvml, tmp_path).find()
    if (function, code) == ("nvmlDeviceGetMinorNumber", UNKNOWN_ERROR):
        assert found.cards == (), "its device node is not known, and that of another card must not be taken for it"
        assert "code 999" in found.unread[0]
    else:
        assert [card.uuid for card in found.cards] == ["GPU-1"]


def test_the_architecture_follows_from_the_compute_capability_of_an_old_driver(fake: FakeNvml, tmp_path: Path) -> None:
    for model in (V100, T4, A100, L4, H100, B200):
        fake.add(model)
    cards = finder(Nvml(str(fake.library(["nvmlDeviceGetArchitecture"]))), tmp_path).find().cards
    assert [card.architecture for card in cards] == [
        "Volta",
        "Turing",
        "Ampere",
        "Ada Lovelace",
        "Hopper",
        "Blackwell",
    ]


def test_a_card_that_cannot_be_read_is_named_and_the_others_are_found(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    for _ in range(3):
        fake.add(H100)
    fake.change({"gpu.1.fault": GPU_IS_LOST})
    found = finder(nvml, tmp_path).find()
    assert [card.name for card in found.cards] == ["gpu-0", "gpu-2"]
    assert list(found.unread) == [1]
    assert "code 15" in found.unread[1]


def test_a_card_stays_where_it_is_while_the_kernel_does_not_say_it(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.add(H100)
    finding = finder(nvml, tmp_path)
    before = finding.find()
    links = tmp_path / "sys/bus/pci"
    links.rename(tmp_path / "aside")
    assert finding.find() == before
    assert [(card.pcie_root, card.numa_node) for card in before.cards] == [("pci0000:15", 1)]
    (tmp_path / "aside").rename(links)
    assert finding.find() == before


def test_a_card_that_is_lost_later_stays_and_is_named(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    for _ in range(2):
        fake.add(H100)
    finding = finder(nvml, tmp_path)
    before = finding.find()
    fake.change({"gpu.1.fault": GPU_IS_LOST})
    after = finding.find()
    assert after.cards == before.cards
    assert list(after.lost) == [before.cards[1].uuid]
    fake.change({"gpu.1.fault": None})
    assert finding.find() == before


def test_a_card_that_is_taken_out_is_forgotten(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.add(H100, uuid="GPU-1")
    fake.add(H100, uuid="GPU-2")
    finding = finder(nvml, tmp_path)
    finding.find()
    fake.change({"gpus": 1})
    found = finding.find()
    assert ([card.uuid for card in found.cards], found.lost) == (["GPU-1"], {})


def test_cards_keep_their_minor_numbers_whatever_order_nvml_has(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.add(H100, minor=5)
    fake.add(H100, minor=2)
    assert [card.index for card in finder(nvml, tmp_path).find().cards] == [2, 5]


@pytest.mark.parametrize("name", ["NVIDIA DGX Display", "DGX Display"])
def test_the_display_card_of_a_station_is_no_card_for_work(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path, name: str
) -> None:
    """The cards beside it keep their names."""
    for model in (A100, replace(T4, name=name), A100):
        fake.add(model)
    assert [card.name for card in finder(nvml, tmp_path).find().cards] == ["gpu-0", "gpu-2"]


def test_what_is_known_of_a_card_is_not_asked_again(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.add(H100)
    finding = finder(nvml, tmp_path)
    finding.find()
    before = fake.calls()
    finding.find()
    assert fake.calls() - before < 10


def test_a_driver_that_is_loaded_anew_is_asked_again(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.add(H100)
    finding = finder(nvml, tmp_path)
    finding.find()
    fake.change({"fault.nvmlDeviceGetCount_v2": 1, "driver": "590.1"})
    with pytest.raises(NvmlError):
        finding.find()
    fake.change({"fault.nvmlDeviceGetCount_v2": None})
    assert [card.driver_version for card in finding.find().cards] == ["590.1"]
    assert fake.calls("nvmlInitWithFlags") == 2


def test_without_a_library_the_error_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(NvmlError, match="/missing/libnvidia-ml"):
        finder(Nvml("/missing/libnvidia-ml.so.1"), tmp_path).find()


def test_cards_that_reach_one_another_over_links_are_one_domain(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    switch = "0000:c0:00.0"
    for index in range(5):
        fake.add(A100, uuid=f"GPU-{index}")
    fake.change(
        {
            **{f"gpu.{card}.nvlink.0.state": 1 for card in range(4)},
            "gpu.0.nvlink.0.peer": switch,
            "gpu.1.nvlink.0.peer": switch,
            # A bridge joins two cards directly.
            "gpu.2.nvlink.0.peer": "0000:48:00.0",
            "gpu.3.nvlink.0.peer": "0000:38:00.0",
            # A link that is down joins nothing.
            "gpu.4.nvlink.0.state": 0,
            "gpu.4.nvlink.0.peer": switch,
        }
    )
    domains = [card.nvlink_domain for card in finder(nvml, tmp_path).find().cards]
    assert domains == ["nvlink-0", "nvlink-0", "nvlink-2", "nvlink-2", ""]


def linked(fake: FakeNvml, *links: tuple[int, int, int]) -> None:
    """Add V100 cards with so many links between two of them each."""
    ends: dict[int, list[int]] = {index: [] for pair in links for index in pair[:2]}
    for one, other, number in links:
        ends[one] += [other] * number
        ends[other] += [one] * number
    for index in sorted(ends):
        fake.add(V100, uuid=f"GPU-{index}")
    for index, others in ends.items():
        for link, other in enumerate(others):
            fake.change({f"gpu.{index}.nvlink.{link}.state": 1, f"gpu.{index}.nvlink.{link}.peer": bus_id(other)})


def bus_id(index: int) -> str:
    return f"0000:{0x18 + 0x10 * index:02x}:00.0"


def links_of(finding: Finder) -> list[Mapping[int, int]]:
    return [card.links for card in finding.find().cards]


def test_cards_with_more_links_to_some_than_to_others_say_how_many(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    """The eight cards of a DGX-1."""
    cards = load_profile("v100x8", MemoryFiles()).cards
    linked(
        fake,
        *((card.index, other, number) for card in cards for other, number in card.links.items() if other > card.index),
    )
    found = finder(nvml, tmp_path)
    assert links_of(found) == [card.links for card in cards]
    assert {card.nvlink_domain for card in found.find().cards} == {"nvlink-0"}


@pytest.mark.parametrize(
    ("case", "links"),
    [
        ("pairs with bridges", [(0, 1, 4), (2, 3, 4)]),
        ("a pair with more links than another", [(0, 1, 4), (2, 3, 2)]),
        ("each with each", [(0, 1, 2), (0, 2, 2), (1, 2, 2)]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_cards_of_which_any_two_have_as_many_links_say_nothing_besides_their_domain(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path, *, case: str, links: Sequence[tuple[int, int, int]]
) -> None:
    linked(fake, *links)
    assert not any(links_of(finder(nvml, tmp_path)))


def test_cards_behind_a_switch_reach_one_another_alike(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    linked(fake, (0, 1, 1), (1, 2, 2))
    fake.change({"gpu.2.nvlink.5.state": 1, "gpu.2.nvlink.5.peer": "0000:c0:00.0"})
    assert not any(links_of(finder(nvml, tmp_path)))


def test_nothing_is_said_of_links_while_those_of_one_card_are_not_known(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    linked(fake, (0, 1, 1), (1, 2, 2))
    fake.change({"gpu.2.fault.nvmlDeviceGetNvLinkState": UNKNOWN_ERROR})
    finding = finder(nvml, tmp_path)
    assert not any(links_of(finding))
    fake.change({"gpu.2.fault.nvmlDeviceGetNvLinkState": None})
    assert links_of(finding) == [{1: 1}, {0: 1, 2: 2}, {1: 2}]


@pytest.mark.parametrize("function", ["nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2"])
@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN_ERROR])
def test_links_that_were_known_hold_unless_the_driver_says_that_there_are_none(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path, function: str, code: int
) -> None:
    linked(fake, (0, 1, 1), (1, 2, 2))
    finding = finder(nvml, tmp_path)
    before = links_of(finding)
    fake.change({f"fault.{function}": code, "driver": "590.1"})  # so everything is read anew
    assert links_of(finding) == ([{}, {}, {}] if code == NOT_SUPPORTED else before)


def test_a_fabric_of_several_nodes_is_the_domain(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.add(GB200)
    fake.add(GB200, fabric="0123456789abcdef0123456789abcdef 8 3")
    fake.add(GB200, fabric="0123456789abcdef0123456789abcdef 8 2")
    fake.add(GB200, fabric="00000000000000000000000000000000 0 3")
    domains = [card.nvlink_domain for card in finder(nvml, tmp_path).find().cards]
    assert domains == [
        "01234567-89ab-cdef-0123-456789abcdef.7",
        "01234567-89ab-cdef-0123-456789abcdef.8",
        "",  # the fabric is not complete yet
        "",  # it has no cluster
    ]


def test_an_old_driver_says_the_fabric_in_an_older_structure(fake: FakeNvml, tmp_path: Path) -> None:
    fake.add(GB200)
    card = only(Nvml(str(fake.library(["nvmlDeviceGetGpuFabricInfoV"]))), tmp_path)
    assert card.nvlink_domain == "01234567-89ab-cdef-0123-456789abcdef.7"
