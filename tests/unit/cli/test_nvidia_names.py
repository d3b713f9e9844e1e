"""Claims that were written for NVIDIA's DRA driver get devices of ours where its names are offered."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.kinds import Offer
from driver.kube.api import Object
from driver.names import Names
from tests.peers import peers_file
from tests.unit.cli.cluster import Answer, node, pod, simulation, slices

ON = Names("lode.dev", nvidia_dra=True)
CLASSES = Path(__file__).parents[3] / "manifests" / "nvidia-dra-names" / "classes.yaml"

Simulate = Callable[..., Answer]


@pytest.fixture
def simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    def call(*objects: Object, names: Names = ON, files: Sequence[Path] = (), offer: tuple[Offer, ...] = ()) -> Answer:
        published = [it for name in ("a", "b") for it in (node(name), *slices(name, "a100x4", offer, names=names))]
        classes = list(yaml.safe_load_all(CLASSES.read_text()))
        options = [word for file in files for word in ("-f", str(file))]
        return simulation(capsys, tmp_path, *published, *classes, *objects, options=options)

    return call


def request(name: str, device_class: str, expression: str = "", **more: Any) -> Object:
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"name": name, "exactly": {"deviceClassName": device_class, **selectors, **more}}


def template(*requests: Object, **devices: Any) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "of-nvidia"},
        "spec": {"spec": {"devices": {"requests": list(requests), **devices}}},
    }


def config(**parameters: Any) -> Object:
    version = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
    return {"opaque": {"driver": "gpu.nvidia.com", "parameters": {**version, **parameters}}}


THEIRS = "device.attributes['gpu.nvidia.com']"
CAPACITY = "device.capacity['gpu.nvidia.com']"


@pytest.mark.parametrize(
    ("expression", "places"),
    [
        ("", ["a/gpu-0"]),
        (f"{THEIRS}.type == 'gpu' && {THEIRS}.index == 2", ["a/gpu-2"]),
        (f"{THEIRS}.productName.lowerAscii().matches('^.*a100.*$') && {THEIRS}.minor == 3", ["a/gpu-3"]),
        (f"{THEIRS}.brand == 'Nvidia' && {THEIRS}.architecture == 'Ampere'", ["a/gpu-0"]),
        (f"{THEIRS}.cudaComputeCapability.isGreaterThan(semver('7.5.0'))", ["a/gpu-0"]),
        (f"{THEIRS}.driverVersion.compareTo(semver('580.0.0')) >= 0", ["a/gpu-0"]),
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0", ["a/gpu-0"]),
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('41Gi')) >= 0", []),
        (f"{THEIRS}.productName == 'NVIDIA B200'", []),
    ],
)
def test_selectors_in_that_drivers_words_select_cards(simulated: Simulate, expression: str, places: list[str]) -> None:
    answer = simulated(template(request("gpu", "gpu.nvidia.com", expression)), pod("p", of="of-nvidia"))
    assert answer.placed()["p"] == [f"a/lode.dev/{place.partition('/')[2]}" for place in places]


@pytest.mark.parametrize(
    ("expression", "profile"),
    [
        (f"{CAPACITY}.multiprocessors.compareTo(quantity('14')) == 0", "1g-5gb"),
        (f"{CAPACITY}.multiprocessors.isGreaterThan(quantity('28'))", "3g-20gb"),
        (f"{THEIRS}.profile.matches('^2g') && {CAPACITY}.multiprocessors.compareTo(quantity('28')) >= 0", "2g-10gb"),
        (f"{CAPACITY}.multiprocessors.isGreaterThan(quantity('98'))", ""),
    ],
)
def test_mig_partitions_by_their_multiprocessors(simulated: Simulate, expression: str, profile: str) -> None:
    answer = simulated(template(request("mig", "mig.nvidia.com", expression)), pod("p", of="of-nvidia"))
    assert [place.partition("-mig-")[2].rpartition("-")[0] for place in answer.placed()["p"]] == [profile] * bool(
        profile
    )


def test_mig_partitions_of_one_card_by_profile_and_parent(simulated: Simulate) -> None:
    parts = {"one": "1g.5gb", "another": "1g.5gb", "two": "2g.10gb", "three": "3g.20gb"}
    wanted = [request(name, "mig.nvidia.com", f"{THEIRS}.profile == '{profile}'") for name, profile in parts.items()]
    together = {"constraints": [{"requests": [], "matchAttribute": "gpu.nvidia.com/parentUUID"}]}
    pods = [pod(f"p{number}", of="of-nvidia") for number in range(8)]
    answer = simulated(template(*wanted, **together), *pods)
    assert answer.status == 0, answer.out
    cards = [{place.partition("-mig-")[0] for place in places} for places in answer.placed().values()]
    assert [len(of_pod) for of_pod in cards] == [1] * 8
    assert len(set.union(*cards)) == 8


def amounts(**amounts: str) -> Object:
    return {"capacity": {"requests": amounts}}


def test_pods_that_ask_for_memory_share_a_card_as_far_as_it_goes(simulated: Simulate) -> None:
    asked = template(request("gpu", "gpu.nvidia.com", **amounts(memory="16Gi")))
    answer = simulated(asked, *[pod(f"p{number}", of="of-nvidia") for number in range(4)])
    assert answer.placed() == {
        "p0": ["a/lode.dev/gpu-0-share"],
        "p1": ["a/lode.dev/gpu-0-share"],
        "p2": ["a/lode.dev/gpu-1-share"],
        "p3": ["a/lode.dev/gpu-1-share"],
    }


def test_a_share_and_a_whole_card_of_one_claim_are_on_two_cards(simulated: Simulate) -> None:
    both = template(request("part", "gpu.nvidia.com", **amounts(memory="2Gi")), request("whole", "gpu.nvidia.com"))
    answer = simulated(both, pod("p", of="of-nvidia"))
    assert answer.placed()["p"] == ["a/lode.dev/gpu-0-share", "a/lode.dev/gpu-1"]


def test_selectors_in_that_drivers_words_select_the_card_that_is_shared(simulated: Simulate) -> None:
    words = f"{THEIRS}.type == 'gpu' && {THEIRS}.index == 2 && {CAPACITY}.memory.isGreaterThan(quantity('30Gi'))"
    asked = template(request("gpu", "gpu.nvidia.com", words, **amounts(memory="2Gi")))
    assert simulated(asked, pod("p", of="of-nvidia")).placed()["p"] == ["a/lode.dev/gpu-2-share"]


def test_one_way_of_several_may_be_a_share(simulated: Simulate) -> None:
    large = {"name": "large", "deviceClassName": "gpu.nvidia.com", **amounts(memory="80Gi")}
    small = {"name": "small", "deviceClassName": "gpu.nvidia.com", **amounts(memory="8Gi")}
    asked = template({"name": "gpu", "firstAvailable": [large, small]})
    assert simulated(asked, pod("p", of="of-nvidia")).placed()["p"] == ["a/lode.dev/gpu-0-share"]


def test_who_only_looks_at_cards_looks_at_whole_ones(simulated: Simulate) -> None:
    looks = request("gpu", "gpu.nvidia.com", adminAccess=True, **amounts(memory="2Gi"))
    assert simulated(template(looks), pod("p", of="of-nvidia")).placed()["p"] == ["a/lode.dev/gpu-0"]


@pytest.mark.parametrize(
    ("amount", "offer", "why"),
    [
        ({"memory": "2Gi"}, ("whole",), "0 of 4 devices fit (4 excluded by device class selector)"),
        ({"memory": "41Gi"}, (), "4 too small (memory: at most 40Gi)"),
        ({"shares": "1"}, (), "4 without capacity shares"),
    ],
    ids=["no card is shared", "more than a card has", "an amount that shares do not have"],
)
def test_a_share_that_there_cannot_be_is_not_replaced_by_a_whole_card(
    simulated: Simulate, amount: dict[str, str], offer: tuple[Offer, ...], why: str
) -> None:
    asked = template(request("gpu", "gpu.nvidia.com", **amounts(**amount)))
    answer = simulated(asked, pod("p", of="of-nvidia"), offer=offer)
    assert answer.placed()["p"] == []
    reason, message = answer.reason("p")
    assert reason == "Impossible"
    assert "wants 1 of gpu.nvidia.com (as shares of cards, because it asks for capacity), " in message
    assert why in message


def test_what_cannot_be_kept_of_its_parameters_is_refused_with_the_remedy(simulated: Simulate) -> None:
    kept = template(request("gpu", "gpu.nvidia.com"), config=[config(sharing={"strategy": "MPS"})])
    assert simulated(kept, pod("p", of="of-nvidia")).placed()["p"] == ["a/lode.dev/gpu-0"]
    limits = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}
    refused = simulated(
        template(request("gpu", "gpu.nvidia.com"), config=[config(sharing=limits)]), pod("p", of="of-nvidia")
    )
    reason, message = refused.reason("p")
    assert reason == "InvalidParameters"
    assert "spec.devices.config[0].opaque.parameters.sharing.mpsConfig.defaultActiveThreadPercentage" in message
    assert "cannot be kept: 50; remove it, or ask for a share" in message


def test_a_selector_for_that_driver_itself_is_refused_with_the_remedy(simulated: Simulate) -> None:
    asked = template(request("gpu", "gpu.nvidia.com", "device.driver == 'gpu.nvidia.com'"))
    reason, message = simulated(asked, pod("p", of="of-nvidia")).reason("p")
    assert reason == "InvalidClaim"
    assert message.endswith("exclude these: gpu (gpu.nvidia.com); remove the test of device.driver")


def test_where_its_names_are_not_published_its_parameters_are_those_of_another_driver(simulated: Simulate) -> None:
    asked = template(request("gpu", "gpu.nvidia.com"), config=[config(sharing="no sense")])
    assert simulated(asked, pod("p", of="of-nvidia"), names=Names()).placed()["p"] == ["a/lode.dev/gpu-0"]
    assert simulated(asked, pod("p", of="of-nvidia")).reason("p")[0] == "InvalidParameters"


@pytest.mark.parametrize(
    ("file", "devices"),
    [("gpu-test1.yaml", [1, 1]), ("gpu-test2.yaml", [1]), ("gpu-test4.yaml", [4] * 4), ("gpu-test6.yaml", [1] * 4)],
)
def test_the_examples_of_that_driver_are_placed_as_they_are(simulated: Simulate, file: str, devices: list[int]) -> None:
    answer = simulated(files=[peers_file(f"nvidia-dra/{file}")])
    assert answer.status == 0, answer.out
    assert [len(places) for places in answer.placed().values()] == devices
    assert len({place for places in answer.placed().values() for place in places}) == sum(devices)
