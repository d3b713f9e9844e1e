"""Claims for NVIDIA's DRA driver mean in our terms what they mean in its own, or are refused field by field."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from driver.errors import InvalidInput
from driver.model import DeviceClass, OpaqueConfig, Want
from driver.names import Names
from driver.nvidia_dra import class_of
from driver.parameters import GpuConfig, MigConfig, Parameters, parameters_of, sharing_of
from driver.quantity import Quantity

ON = Names("lode.dev", nvidia_dra=True)
VERSION = "resource.nvidia.com/v1beta1"


def entry(kind: str = "GpuConfig", version: str = VERSION, **parameters: Any) -> OpaqueConfig:
    return OpaqueConfig("gpu.nvidia.com", {"apiVersion": version, "kind": kind, **parameters}, ("gpu",))


def sharing(strategy: Any, **more: Any) -> Any:
    return {"sharing": {"strategy": strategy, **more}}


def turns(interval: Any = None) -> Any:
    return sharing("TimeSlicing", timeSlicingConfig={} if interval is None else {"interval": interval})


@pytest.mark.parametrize(
    ("kind", "parameters", "ours", "as_one_word"),
    [
        ("GpuConfig", {}, GpuConfig(), "none"),
        ("GpuConfig", {"sharing": None}, GpuConfig(), "none"),
        (
            "GpuConfig",
            sharing("TimeSlicing"),
            GpuConfig(sharing="timeSlicing", interval="default"),
            "timeSlicing",
        ),
        ("GpuConfig", turns(), GpuConfig(sharing="timeSlicing", interval="default"), "timeSlicing"),
        ("GpuConfig", turns("Default"), GpuConfig(sharing="timeSlicing", interval="default"), "timeSlicing"),
        ("GpuConfig", turns("Short"), GpuConfig(sharing="timeSlicing", interval="short"), "timeSlicing short"),
        ("GpuConfig", turns("Medium"), GpuConfig(sharing="timeSlicing", interval="medium"), "timeSlicing medium"),
        ("GpuConfig", turns("Long"), GpuConfig(sharing="timeSlicing", interval="long"), "timeSlicing long"),
        ("GpuConfig", sharing("MPS"), GpuConfig(sharing="mps"), "mps"),
        ("GpuConfig", sharing("MPS", mpsConfig={"multiUser": False}), GpuConfig(sharing="mps"), "mps"),
        ("MigDeviceConfig", {}, MigConfig(), "none"),
        ("MigDeviceConfig", sharing("TimeSlicing"), MigConfig(), "none"),
    ],
)
def test_what_is_asked_for_is_kept(kind: str, parameters: Any, ours: Parameters, as_one_word: str) -> None:
    config = [entry(kind, **parameters)]
    (found,) = parameters_of(config, ON, "ResourceClaim a/b")
    assert (found.parameters, found.requests) == (ours, ("gpu",))
    assert sharing_of(config, ON, "gpu") == as_one_word


AT = "spec.devices.config[0].opaque.parameters"


@pytest.mark.parametrize(
    ("config", "faults"),
    [
        (
            entry("VfioDeviceConfig"),
            [".kind: cannot be kept: 'VfioDeviceConfig'; use one of GpuConfig, MigDeviceConfig, or remove the entry"],
        ),
        (
            entry(version="gpu.nvidia.com/v1alpha1", sharing={"strategy": "Random"}),
            [
                ".apiVersion: unknown version: 'gpu.nvidia.com/v1alpha1'; use resource.nvidia.com/v1beta1",
                ".sharing.strategy: unsupported value: 'Random'; use TimeSlicing or MPS",
            ],
        ),
        (
            entry(sharing={"strategy": "MPS", "mpsConfg": {}}, shares=2),
            [
                ".shares: unknown field; remove it (the fields here are apiVersion, kind, sharing)",
                ".sharing.mpsConfg: unknown field; remove it (the fields here are strategy, timeSlicingConfig, "
                "mpsConfig)",
            ],
        ),
        (
            entry(sharing="MPS"),
            [
                ".sharing: must be an object with the fields strategy, timeSlicingConfig, mpsConfig (found 'MPS')",
            ],
        ),
        (
            entry(**turns("Forever")),
            [
                ".sharing.timeSlicingConfig.interval: unsupported value: 'Forever'; use one of Default, Short, Medium, "
                "Long"
            ],
        ),
        (entry(sharing={}), [".sharing.strategy: unsupported value: None; use TimeSlicing or MPS"]),
        (
            entry(**sharing("TimeSlicing", mpsConfig={})),
            [".sharing.mpsConfig: has no meaning with strategy TimeSlicing; remove it"],
        ),
        (
            entry(**sharing("MPS", timeSlicingConfig={})),
            [".sharing.timeSlicingConfig: has no meaning with strategy MPS; remove it"],
        ),
        (
            entry(
                **sharing(
                    "MPS", mpsConfig={"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}
                )
            ),
            [
                ".sharing.mpsConfig.defaultActiveThreadPercentage: cannot be kept: 50; remove it, or ask for a share "
                "of a card, whose memory and cores are limits under MPS",
                ".sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: cannot be kept: '10Gi'; remove it, or ask for a "
                "share of a card, whose memory and cores are limits under MPS",
            ],
        ),
        (
            entry("MigDeviceConfig", **sharing("MPS")),
            [
                ".sharing.strategy: cannot be kept: 'MPS' in a MIG partition; remove sharing, or ask for a smaller "
                "profile"
            ],
        ),
        (
            entry("MigDeviceConfig", **turns("Long")),
            [".sharing.timeSlicingConfig: cannot be kept: a MIG partition has no time slices of its own; remove it"],
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_with_field_value_and_remedy(config: OpaqueConfig, faults: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        parameters_of([config], ON, "ResourceClaim a/b")
    assert [str(fault) for fault in refused.value.faults] == [f"{AT}{fault}" for fault in faults]
    assert sharing_of([config], ON, "gpu") == "none"


@pytest.mark.parametrize("value", [None, True, 7, "text", [], {"a": 1}, {"strategy": {}}, {"strategy": ["MPS"]}])
@pytest.mark.parametrize("field", ["kind", "sharing", "apiVersion", "\0"])
def test_whatever_is_written_gets_an_answer(field: str, value: Any) -> None:
    config = OpaqueConfig("gpu.nvidia.com", {"apiVersion": VERSION, "kind": "GpuConfig", field: value})
    with suppress(InvalidInput):
        parameters_of([config], ON, "ResourceClaim a/b")
    sharing_of([config], ON, "gpu")


@pytest.mark.parametrize("value", [[], {}, "x", 5, {"interval": {}}, {"interval": []}])
@pytest.mark.parametrize("field", ["timeSlicingConfig", "mpsConfig"])
def test_whatever_is_written_inside_gets_an_answer(field: str, value: Any) -> None:
    for strategy in ("TimeSlicing", "MPS"):
        config = entry(**sharing(strategy, **{field: value}))
        with suppress(InvalidInput):
            parameters_of([config], ON, "ResourceClaim a/b")
        sharing_of([config], ON, "gpu")


def test_later_entries_count_whoever_they_are_written_for() -> None:
    ours = OpaqueConfig("lode.dev", {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "sharing": "hamiCore"})
    assert sharing_of([entry(**sharing("MPS")), ours], ON, "gpu") == "hamiCore"
    assert sharing_of([ours, entry(**sharing("MPS"))], ON, "gpu") == "mps"


def test_without_the_setting_these_are_the_parameters_of_another_driver() -> None:
    config = [entry(**sharing("MPS")), entry("VfioDeviceConfig")]
    assert parameters_of(config, Names(), "ResourceClaim a/b") == ()
    assert sharing_of(config, Names(), "gpu") == "none"


WHOLE = 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "gpu"'
SHARE = 'device.attributes["lode.dev"].kind == "gpu-share"'
TWO_GIBIBYTES = {"memory": Quantity.parse("2Gi")}


def selectors_of(want: Want, selectors: Sequence[str], names: Names = ON) -> tuple[str, ...]:
    found = class_of(want, {want.device_class: DeviceClass(want.device_class, tuple(selectors))}, names)
    assert found
    return found.selectors


@pytest.mark.parametrize(
    ("selectors", "of_shares"),
    [
        ([WHOLE], (f'device.driver == "lode.dev" && {SHARE}',)),
        ([f"{WHOLE} && 1 < 2", "2 < 3"], (f'device.driver == "lode.dev" && {SHARE} && 1 < 2', "2 < 3")),
        (["true"], ("true", SHARE)),
        ([], (SHARE,)),
    ],
    ids=["as shipped", "with more tests", "without a test of the kind", "without a test"],
)
def test_the_class_of_whole_cards_selects_shares_for_who_asks_for_amounts(
    selectors: Sequence[str], of_shares: Sequence[str]
) -> None:
    assert selectors_of(Want("gpu.nvidia.com", capacity=TWO_GIBIBYTES), selectors) == of_shares


@pytest.mark.parametrize(
    ("want", "names"),
    [
        (Want("gpu.nvidia.com"), ON),
        (Want("gpu.nvidia.com", capacity=TWO_GIBIBYTES, admin_access=True), ON),
        (Want("gpu.nvidia.com", capacity=TWO_GIBIBYTES), Names("lode.dev")),
        (Want("gpu.lode.dev", capacity=TWO_GIBIBYTES), ON),
        (Want("mig.nvidia.com", capacity=TWO_GIBIBYTES), ON),
    ],
    ids=["no amounts", "looks only", "names are off", "our class", "partitions"],
)
def test_every_other_request_is_decided_by_its_class_as_it_is(want: Want, names: Names) -> None:
    assert selectors_of(want, [WHOLE], names) == (WHOLE,)


def test_a_class_that_does_not_exist_has_no_shares() -> None:
    assert class_of(Want("gpu.nvidia.com", capacity=TWO_GIBIBYTES), {}, ON) is None
