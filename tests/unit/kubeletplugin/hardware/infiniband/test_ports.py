"""What the ports say about the fabric: which of them count, its name, and which card uses which HCA."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.hardware.infiniband.ports import DEFAULT_SUBNET, Hca, Port, cluster_of, compute_hcas, ties

SUBNET = "fec0000000000001"
OTHER = "fec0000000000002"
ALL = (0xFFFF,)


def port(subnet: str = SUBNET, *, active: bool = True, partitions: tuple[int, ...] = ALL, number: int = 1) -> Port:
    return Port(number, f"0c42a10300abcd1{number}", subnet, active, 400, partitions)


def hca(name: str, *path: str, ports: tuple[Port, ...] | None = None) -> Hca:
    return Hca(name, path, (port(),) if ports is None else ports)


STORAGE = hca("mlx5_4", "pci0000:15", "0000:5e:00.0", ports=(port(OTHER, number=1), port(OTHER, number=2)))


@pytest.mark.parametrize("pattern", ["mlx5_4", "mlx5_[4-9]", "0000:5e:*", "mlx5_4/*", "0c42a10300abcd1?"])
def test_storage_hcas_are_excluded_by_name_address_port_or_guid(pattern: str) -> None:
    assert STORAGE not in compute_hcas([STORAGE, hca("mlx5_9", ports=(port(active=False, number=9),))], [pattern])


def test_one_port_of_an_hca_can_be_excluded() -> None:
    (kept,) = compute_hcas([STORAGE], ["mlx5_4/2"])
    assert [each.number for each in kept.ports] == [1]


def test_hcas_are_in_the_order_of_their_addresses_whatever_they_are_called() -> None:
    hcas = [hca("mlx5_0", "pci0000:d7", "0000:d8:00.0"), hca("mlx5_1", "pci0000:15", "0000:18:00.0")]
    assert [each.name for each in compute_hcas(hcas, [])] == ["mlx5_1", "mlx5_0"]


@pytest.mark.parametrize(
    ("ports", "name"),
    [
        ([], ""),
        ([port()], SUBNET),
        ([port(), port()], SUBNET),
        ([port(active=False)], ""),
        ([port(), port(OTHER, active=False)], SUBNET),
        # Each rail has a subnet of its own.
        ([port(OTHER), port()], f"{SUBNET}+{OTHER}"),
        # The default prefix says nothing.
        ([port(DEFAULT_SUBNET)], ""),
        ([port(DEFAULT_SUBNET, partitions=(0x7FFF, 0x8012))], ""),
        ([port(DEFAULT_SUBNET), port()], SUBNET),
        ([port("")], ""),
        # A full member of the default partition reaches every port; a limited one needs a partition of its own.
        ([port(partitions=(0x7FFF, 0xFFFF, 0x8012))], SUBNET),
        ([port(partitions=(0x7FFF, 0x8012))], f"{SUBNET}.p0012"),
        ([port(partitions=(0x7FFF, 0x8034, 0x8012))], f"{SUBNET}.p0012.p0034"),
        ([port(partitions=(0x7FFF,))], ""),
        ([port(partitions=())], SUBNET),
    ],
)
def test_the_fabric_is_named_after_the_subnets_and_partitions_of_active_ports(ports: list[Port], name: str) -> None:
    assert cluster_of([hca("mlx5_0", ports=(each,)) for each in ports]) == name


LEFT = ("pci0000:15", "0000:15:01.0")
RIGHT = ("pci0000:97", "0000:97:01.0")


def test_a_card_is_tied_to_the_hca_on_its_pcie_root() -> None:
    hcas = [hca("mlx5_0", *LEFT, "0000:18:00.0"), hca("mlx5_1", *RIGHT, "0000:9a:00.0")]
    cards = {"a": (*RIGHT, "0000:9b:00.0"), "b": (*LEFT, "0000:19:00.0"), "c": ("pci0000:d7", "0000:d8:00.0")}
    assert ties(cards, hcas) == {"a": 1, "b": 0}


def test_a_card_is_tied_to_the_hca_behind_the_same_switch() -> None:
    switches = [("pci0000:15", "0000:15:01.0", f"0000:16:0{number}.0") for number in range(2)]
    hcas = [hca(f"mlx5_{number}", *switch, f"0000:2{number}:00.0") for number, switch in enumerate(switches)]
    cards = {"a": (*switches[1], "0000:18:00.0"), "b": (*switches[0], "0000:19:00.0")}
    assert ties(cards, hcas) == {"a": 1, "b": 0}


def test_cards_with_several_near_hcas_take_turns() -> None:
    hcas = [hca(f"mlx5_{number}", *LEFT, f"0000:2{number}:00.0") for number in range(2)]
    cards = {name: (*LEFT, f"0000:3{number}:00.0") for number, name in enumerate("abcd")}
    assert ties(cards, hcas) == {"a": 0, "b": 1, "c": 0, "d": 1}


def test_a_port_that_is_not_active_leaves_its_cards_to_the_next_hca_and_moves_no_rail() -> None:
    down = hca("mlx5_0", *LEFT, "0000:20:00.0", ports=(port(active=False),))
    hcas = [down, hca("mlx5_1", *LEFT, "0000:21:00.0"), hca("mlx5_2", *RIGHT, "0000:9a:00.0")]
    cards = {"a": (*LEFT, "0000:30:00.0"), "b": (*LEFT, "0000:31:00.0"), "c": (*RIGHT, "0000:9b:00.0")}
    assert ties(cards, hcas) == {"a": 1, "b": 1, "c": 2}


def test_a_card_keeps_its_hca_when_no_port_is_active() -> None:
    down = hca("mlx5_0", *LEFT, "0000:20:00.0", ports=(port(active=False),))
    assert ties({"a": (*LEFT, "0000:30:00.0")}, [down]) == {"a": 0}


def test_a_card_whose_place_is_not_known_is_tied_to_none() -> None:
    assert ties({"a": ()}, [hca("mlx5_0")]) == {}


ways = st.lists(st.sampled_from(["pci0000:15", "pci0000:97", "0000:15:01.0", "0000:16:00.0"]), max_size=3).map(tuple)


@given(st.dictionaries(st.sampled_from("abcdef"), ways), st.lists(ways, max_size=4))
def test_a_card_is_tied_only_to_an_hca_on_its_root_and_to_one_if_there_is_any(
    cards: dict[str, tuple[str, ...]], places: list[tuple[str, ...]]
) -> None:
    hcas = [hca(f"mlx5_{number}", *way) for number, way in enumerate(places)]
    tied = ties(cards, hcas)
    assert all(hcas[position].pci_path[0] == cards[name][0] for name, position in tied.items())
    assert set(tied) == {name for name, way in cards.items() if way and way[0] in {p[0] for p in places if p}}
