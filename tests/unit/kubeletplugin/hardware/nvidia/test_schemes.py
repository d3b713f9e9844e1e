"""MIG schemes: exactly the sets of instances that the device takes can be allocated."""

import ctypes
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from kubeletplugin.hardware import partitions
from kubeletplugin.hardware.nvidia.found import Finder
from kubeletplugin.hardware.nvidia.nvml.library import Nvml
from kubeletplugin.hardware.partitions import A100_40GB, H100_80GB, Partition, Scheme
from kubeletplugin.hardware.sysfs import Sysfs
from tests.fakes.nvml import FakeNvml
from tests.fakes.nvml.models import A30, A100, B200, GB200, H100, H200, RTX_PRO_5000, RTX_PRO_6000, Model, Profile
from tests.simulation.clock import VirtualClock

IN_MANUAL = [A30, A100, H100, H200, B200, GB200]
OTHERS = [RTX_PRO_5000, RTX_PRO_6000]
"""Cards whose placements are said by the driver only."""
MODELS = [*IN_MANUAL, *OTHERS]
PLACEMENTS = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
NAMES = "nvmlDeviceGetGpuInstanceProfileInfoV"


def scheme_of(fake: FakeNvml, library: Path | None = None) -> Scheme:
    (card,) = Finder(Nvml(str(library or fake.library())), Sysfs("/missing"), VirtualClock()).find().cards
    assert card.scheme is not None
    return card.scheme


def fits(scheme: Scheme, partitions: list[Partition]) -> bool:
    drawn: Counter[str] = Counter()
    for partition in partitions:
        drawn.update(partition.draws)
    return all(drawn[counter] <= scheme.counters[counter] for counter in drawn)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_profile_is_offered_at_every_placement_of_the_device(fake: FakeNvml, model: Model) -> None:
    fake.add(model)
    offered = {(partition.profile, partition.slot) for partition in scheme_of(fake).partitions}
    assert offered == {(profile.name, start) for profile in model.profiles for start in profile.starts}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_counters_admit_the_sets_of_instances_that_the_device_admits(fake: FakeNvml, model: Model) -> None:
    card = fake.add(model, mig="1 1")
    scheme = scheme_of(fake)
    profiles = {profile.name: profile for profile in model.profiles}
    handle = pynvml.nvmlDeviceGetHandleByIndex(card)
    chance = random.Random(model.name)
    for _ in range(15):
        fake.change({f"gpu.{card}.gi": None})
        created: list[Partition] = []
        for partition in chance.sample(scheme.partitions, len(scheme.partitions)):
            profile = profiles[partition.profile]
            place = pynvml.c_nvmlGpuInstancePlacement_t(partition.slot, profile.size)
            try:
                pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile.id, ctypes.byref(place))
            except pynvml.NVMLError:
                assert not fits(scheme, [*created, partition]), (created, partition)
            else:
                created.append(partition)
                assert fits(scheme, created)


@pytest.mark.parametrize(
    ("model", "table"),
    [
        (A100, A100_40GB),
        (H100, H100_80GB),
        (B200, partitions.B200),
        (GB200, partitions.GB200),
        (RTX_PRO_6000, partitions.RTX_PRO_6000),
    ],
    ids=lambda value: value.name,
)
def test_the_device_agrees_with_the_built_in_table(fake: FakeNvml, model: Model, table: Scheme) -> None:
    fake.add(model)
    offered = {(partition.profile, partition.slot) for partition in scheme_of(fake).partitions}
    assert offered >= {(partition.profile, partition.slot) for partition in table.partitions}


@pytest.mark.parametrize("model", IN_MANUAL, ids=lambda model: model.name)
@pytest.mark.parametrize("missing", [NAMES, PLACEMENTS])
def test_names_and_placements_that_a_driver_does_not_say_are_those_of_the_manual(
    fake: FakeNvml, model: Model, missing: str
) -> None:
    fake.add(model)
    whole, lacking = scheme_of(fake), scheme_of(fake, fake.library([missing]))
    assert {(p.profile, p.slot) for p in lacking.partitions} == {(p.profile, p.slot) for p in whole.partitions}


@pytest.mark.parametrize("model", OTHERS, ids=lambda model: model.name)
def test_names_that_a_driver_does_not_say_are_all_different(fake: FakeNvml, model: Model) -> None:
    """Also those of variants with other engines."""
    fake.add(model)
    whole, lacking = scheme_of(fake), scheme_of(fake, fake.library([NAMES]))
    assert [part.suffix for part in lacking.partitions] == [part.suffix for part in whole.partitions]


@pytest.mark.parametrize(
    "model",
    [
        *OTHERS,
        replace(A30, capability="12.0"),
        replace(B200, capability="11.0"),
        replace(H100, profiles=tuple(replace(it, memory_mib=it.memory_mib * 6 // 7) for it in H100.profiles[:-1])),
        replace(
            H100, profiles=(*H100.profiles, Profile(10, 47, "1g.10gb+gfx", 1, 2, 16, (1, 0, 0, 0, 0), 14000, 1, ()))
        ),
    ],
)
def test_placements_of_other_layouts_are_not_guessed(fake: FakeNvml, model: Model) -> None:
    """The number of slices does not say where instances can be: an RTX PRO 6000 has as many as an A30."""
    fake.add(model)
    (card,) = Finder(Nvml(str(fake.library([PLACEMENTS]))), Sysfs("/missing"), VirtualClock()).find().cards
    assert card.scheme is None


def test_the_table_of_twelve_slices_is_what_the_device_says(fake: FakeNvml) -> None:
    fake.add(RTX_PRO_6000)
    said, table = scheme_of(fake), partitions.RTX_PRO_6000
    assert said.counters == table.counters
    assert {part.suffix: part for part in said.partitions} == {part.suffix: part for part in table.partitions}


def test_smaller_partitions_come_first_and_those_with_more_engines_later(fake: FakeNvml) -> None:
    fake.add(H100)
    profiles = list(dict.fromkeys(partition.profile for partition in scheme_of(fake).partitions))
    assert profiles == ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]


def test_device_names_tell_profiles_with_and_without_media_engines_apart() -> None:
    names = {Partition(profile, 0, 1, 1, {}, {}).suffix for profile in ("1g.24gb", "1g.24gb+me", "1g.24gb-me")}
    assert names == {"1g-24gb-0", "1g-24gb-me-0", "1g-24gb-no-me-0"}
