"""IDs that are replicas of one device are one card, and no other IDs are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.hardware.deviceplugin.reported import ALL, Replicas, Reported, ReportedCard, card_reports

IDS = st.text(st.sampled_from("ab0:-_/."), min_size=1, max_size=8) | st.builds(
    lambda base, end: base + end,
    st.sampled_from(["GPU-1", "card0", "nvidia0"]),
    st.sampled_from(["", "::0", "::1", "-_-0", "/vgpu1", "-0", "-1"]),
)
REPLICAS: list[Replicas] = ["auto", "dashed", "equal", "none"]


def bases(replicas: Replicas, *ids: str) -> dict[str, tuple[str, ...]]:
    return {report.device_id: report.ids for report in card_reports(map(Reported, ids), replicas)}


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        pytest.param(["GPU-1::0", "GPU-1::1"], {"GPU-1": ("GPU-1::0", "GPU-1::1")}, id="NVIDIA, time-slicing"),
        pytest.param(["m-_-1", "m-_-2"], {"m": ("m-_-1", "m-_-2")}, id="Cambricon"),
        pytest.param(["nvidia0/vgpu0"], {"nvidia0": ("nvidia0/vgpu0",)}, id="GKE"),
        pytest.param(["npu-0", "npu-1"], {"npu-0": ("npu-0",), "npu-1": ("npu-1",)}, id="numbered chips"),
        pytest.param(["0000:18:00.0"], {"0000:18:00.0": ("0000:18:00.0",)}, id="a PCI address"),
    ],
)
def test_replicas_are_known_by_the_ends_that_plugins_give_them(
    ids: list[str], expected: dict[str, tuple[str, ...]]
) -> None:
    assert bases("auto", *ids) == expected


def test_ends_that_number_other_things_too_count_only_by_the_setting() -> None:
    assert bases("dashed", "card0-0", "card0-1", "card1-0") == {"card0": ("card0-0", "card0-1"), "card1": ("card1-0",)}
    assert bases("equal", "0", "1", "x") == {ALL: ("0", "1", "x")}
    assert bases("none", "a::0", "a::1") == {"a::0": ("a::0",), "a::1": ("a::1",)}


def test_one_unhealthy_replica_counts_for_its_card() -> None:
    (report,) = card_reports([Reported("a::0"), Reported("a::1", healthy=False)], "auto")
    assert report == ReportedCard("a", ("a::0", "a::1"), True, ("a::1",))


def test_a_card_is_on_the_lowest_numa_node_that_is_reported() -> None:
    (report,) = card_reports([Reported("a::0", numa_node=3), Reported("a::1", numa_node=1), Reported("a::2")], "auto")
    assert report.numa_node == 1


@given(st.lists(st.builds(Reported, IDS, st.booleans())), st.sampled_from(REPLICAS))
def test_each_id_is_in_exactly_one_card(devices: list[Reported], replicas: Replicas) -> None:
    reports = card_reports(devices, replicas)
    every = [each for report in reports for each in report.ids]
    assert sorted(every) == sorted({device.id for device in devices})
    assert len({report.device_id for report in reports}) == len(reports)
    assert all(set(report.unhealthy) <= set(report.ids) for report in reports)
    assert card_reports(reversed(list({device.id: device for device in devices}.values())), replicas) == card_reports(
        {device.id: device for device in devices}.values(), replicas
    )
