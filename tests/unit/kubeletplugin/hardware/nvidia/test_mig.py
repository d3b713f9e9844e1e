"""MIG instances: created, completed, adopted and destroyed, whenever the program dies."""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from driver.errors import TransientFault
from kubeletplugin.hardware import Action, Card, Hardware, NoRoom, Unsupported, Use
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.offers import CardOffer, Recorded, offer_of
from tests.fakes.killed import dies
from tests.fakes.nvml.models import A30, A100, B200, H100, L40S, RTX_PRO_6000, Model
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

INVALID_ARGUMENT, INSUFFICIENT_RESOURCES, NOT_SUPPORTED, UNKNOWN_ERROR = 2, 23, 3, 999


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    return tmp_path


def card_of(hardware: Hardware) -> Card:
    return hardware.cards()[0]


def use_of(hardware: Hardware, profile: str, start: int = 0, claim: str = "claim") -> Use:
    card = card_of(hardware)
    assert card.scheme
    part = next(part for part in card.scheme.partitions if (part.profile, part.slot) == (profile, start))
    return Use(claim, card, part)


def create(bench: NvidiaBench, profile: str, start: int = 0) -> None:
    hardware = bench.start()
    for action in hardware.actions(use_of(hardware, profile, start), ()):
        hardware.ensure(action)


def destroy(bench: NvidiaBench, profile: str, start: int = 0) -> None:
    hardware = bench.start()
    card = card_of(hardware).uuid
    for action in (MigInstance(card, profile, start), MigMode(card)):
        hardware.release(action, None)


def ensure_all(hardware: Hardware, actions: Sequence[Action]) -> None:
    for action in actions:
        hardware.ensure(action)


def release_all(hardware: Hardware, actions: Sequence[Action]) -> None:
    for action in reversed(actions):
        hardware.release(action, None)


def offered(hardware: Hardware, keys: Collection[str] = ()) -> CardOffer:
    """What the only card can be offered as, if claims have what these keys name."""
    card = card_of(hardware)
    return offer_of(card, hardware.observe(card), Recorded(frozenset(keys)))


@pytest.mark.parametrize("model", [H100, B200, RTX_PRO_6000], ids=lambda model: model.name)
def test_every_profile_is_created_where_it_is_asked_for_and_destroyed(state: Path, model: Model) -> None:
    bench = NvidiaBench(state, model, 1)
    for profile in model.profiles:
        create(bench, profile.name, profile.starts[-1])
        assert bench.nvml.instances(0) == [(profile.name, profile.starts[-1], True)]
        destroy(bench, profile.name, profile.starts[-1])
        assert bench.nvml.instances(0) == []
    assert bench.nvml.state()["gpu.0.mig"] == "0 0"


@pytest.mark.parametrize("model", [A30, A100], ids=lambda model: model.name)
def test_a_card_that_needs_a_reset_is_partitioned_once_its_mode_is_on(state: Path, model: Model) -> None:
    bench = NvidiaBench(state, model, 1)
    hardware = bench.start()
    assert card_of(hardware).scheme is None
    bench.nvml.change({"gpu.0.mig": "1 1"})
    use = use_of(hardware, model.profiles[0].name)
    bench.nvml.change({"gpu.0.mig": "0 0"})
    excluded = hardware.observe(use.card).excluded
    assert set(excluded) == {"partitions"}
    assert "nvidia-smi" in excluded["partitions"]
    with pytest.raises(Unsupported, match="reset"):
        hardware.actions(use, ())
    bench.nvml.change({"gpu.0.mig": "1 1"})
    assert set(offered(hardware).withheld) == {"whole", "share"}
    create(bench, model.profiles[0].name)
    destroy(bench, model.profiles[0].name)
    assert (bench.nvml.instances(0), bench.nvml.state()["gpu.0.mig"]) == ([], "1 1")


def test_a_container_sees_its_instance_and_its_card_and_no_other(state: Path) -> None:
    bench = NvidiaBench(state, H100, 2)
    hardware = bench.start()
    use = use_of(hardware, "1g.10gb", 3)
    handles = {action.key: hardware.ensure(action) for action in hardware.actions(use, ())}
    edits = hardware.edits(use, handles)
    assert edits.mig_uuid == "MIG-00000000-0001-5000-8000-000000000000"
    assert [node.path for node in edits.device_nodes] == [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap12",  # gpu0/gi1/access
        "/dev/nvidia-caps/nvidia-cap13",  # gpu0/gi1/ci0/access
    ]


def test_what_the_kernel_says_of_an_instance_itself_comes_first(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    hardware = bench.start()
    use = use_of(hardware, "1g.10gb")
    handles = {action.key: hardware.ensure(action) for action in hardware.actions(use, ())}
    for path, number in (("gi1", 70), ("gi1/ci0", 71)):
        text = f"DeviceFileMinor: {number}\nDeviceFileMode: 292\n"
        bench.machine.file(f"proc/driver/nvidia/capabilities/gpu0/mig/{path}/access", text)
    nodes = hardware.edits(use, handles).device_nodes[-2:]
    assert [(node.path, node.major, node.minor) for node in nodes] == [
        ("/dev/nvidia-caps/nvidia-cap70", 511, 70),
        ("/dev/nvidia-caps/nvidia-cap71", 511, 71),
    ]


def killed_everywhere(bench: NvidiaBench, work: Callable[[], None]) -> Iterator[None]:
    """Begins the work again and again, killed at its first call of NVML, at its second and so on, until it ends."""
    bench.start().cards()  # loads the library, which the processes of the work inherit
    calls = 1
    while True:
        bench.nvml.change({"kill": bench.nvml.calls() + calls})
        if not dies(work):
            break
        yield
        calls += 1
    bench.nvml.change({"kill": None})
    assert calls > 20


@pytest.mark.parametrize("completes", [True, False], ids=["completes", "undoes"])
def test_killed_between_any_two_calls_the_next_start_completes_or_destroys(state: Path, completes: bool) -> None:
    bench = NvidiaBench(state, H100, 1)
    hardware = bench.start()
    actions = hardware.actions(use_of(hardware, "2g.20gb", 2), ())
    for _ in killed_everywhere(bench, lambda: ensure_all(hardware, actions)):
        if completes:
            ensure_all(hardware, actions)
            assert bench.nvml.instances(0) == [("2g.20gb", 2, True)]
        release_all(hardware, actions)
        assert (bench.nvml.instances(0), bench.nvml.state()["gpu.0.mig"]) == ([], "0 0")


def test_killed_between_any_two_calls_of_a_release_the_next_one_destroys_the_rest(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    hardware = bench.start()
    actions = hardware.actions(use_of(hardware, "2g.20gb", 2), ())
    ensure_all(hardware, actions)
    for _ in killed_everywhere(bench, lambda: release_all(hardware, actions)):
        release_all(hardware, actions)
        assert (bench.nvml.instances(0), bench.nvml.state()["gpu.0.mig"]) == ([], "0 0")
        ensure_all(hardware, actions)


def test_an_instance_without_a_compute_instance_is_found_and_completed(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"gpu.0.mig": "1 1", "gpu.0.gi.4": "9 4 4"})
    hardware = bench.start()
    action = MigInstance(card_of(hardware).uuid, "3g.40gb", 4)
    found = {each.action: each.complete for each in hardware.observe(card_of(hardware)).found}
    assert found[action] is False
    assert hardware.ensure(action)["gpuInstance"] == "4"
    assert bench.nvml.instances(0) == [("3g.40gb", 4, True)]


@pytest.mark.parametrize("code", [INSUFFICIENT_RESOURCES, NOT_SUPPORTED, UNKNOWN_ERROR])
def test_nothing_is_left_of_an_instance_that_cannot_be_completed(state: Path, code: int) -> None:
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"fault.nvmlGpuInstanceCreateComputeInstance": code})
    with pytest.raises(TransientFault):
        create(bench, "3g.40gb", 4)
    assert bench.nvml.instances(0) == []


@pytest.mark.parametrize(
    "function", ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"]
)
def test_what_the_card_refuses_for_its_arguments_is_not_tried_for_ever(state: Path, function: str) -> None:
    """The operator reads which profile at which memory slice, and how to compare."""
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({f"fault.{function}": INVALID_ARGUMENT})
    with pytest.raises(Unsupported, match=r"3g\.40gb.*4.*code 2.*-lgipp"):
        create(bench, "3g.40gb", 4)
    assert bench.nvml.instances(0) == []


def test_a_card_whose_placements_are_not_known_has_partitions_when_its_mode_is_on(state: Path) -> None:
    """Then the driver says the placements, to a process that runs as to a new one. They stay when the mode is off."""
    bench = NvidiaBench(state, RTX_PRO_6000, 1)
    bench.nvml.change({"gpu.0.placements.needmig": 1})
    hardware = bench.start()
    card = card_of(hardware)
    assert card.scheme is None
    excluded = hardware.observe(card).excluded
    assert set(excluded) == {"partitions"}
    assert f"nvidia-smi -i {card.uuid} -mig 1" in excluded["partitions"]
    bench.nvml.change({"gpu.0.mig": "1 1"})
    scheme = card_of(hardware).scheme
    assert scheme == card_of(bench.start()).scheme
    assert scheme
    assert sorted(part.slot for part in scheme.partitions if part.profile == "1g.24gb") == [0, 3, 6, 9]
    bench.nvml.change({"gpu.0.mig": "0 0"})
    assert card_of(hardware).scheme == scheme
    assert hardware.observe(card).excluded == {}


def test_placements_of_the_manual_end_when_the_driver_says_others(state: Path) -> None:
    """As it does in MIG mode."""
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"gpu.0.placements.needmig": 1})
    hardware = bench.start()
    guessed = card_of(hardware).scheme
    known = bench.nvml.state()["gpu.0.profile.0"]
    bench.nvml.change({"gpu.0.mig": "1 1", "gpu.0.profile.0": known.replace("0,1,2,3,4,5,6", "0,1,2")})
    said = card_of(hardware).scheme
    assert guessed
    assert said == card_of(bench.start()).scheme
    assert len(guessed.partitions) - len(said.partitions if said else ()) == 4


def test_an_instance_of_somebody_else_is_named_and_stays(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"gpu.0.mig": "1 1", "gpu.0.gi.9": "5 0 4", "gpu.0.gi.9.ci.0": 3})
    with pytest.raises(NoRoom, match=r"4g\.40gb at memory slice 0"):
        create(bench, "1g.10gb", 2)
    create(bench, "1g.10gb", 6)
    assert bench.nvml.instances(0) == [("4g.40gb", 0, True), ("1g.10gb", 6, True)]


def test_an_instance_that_somebody_divided_is_not_taken(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"gpu.0.mig": "1 1", "gpu.0.gi.9": "9 0 4", "gpu.0.gi.9.ci.0": 0})
    with pytest.raises(NoRoom, match="nvidia-smi mig -dci"):
        create(bench, "3g.40gb", 0)


def test_a_mode_that_the_operator_turned_on_stays_on(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"gpu.0.mig": "1 1"})
    hardware = bench.start()
    use = use_of(hardware, "1g.10gb")
    assert [action.kind for action in hardware.actions(use, ())] == ["mig"]
    assert [action.kind for action in hardware.actions(use, [MigMode(use.card.uuid).key])] == ["migmode", "mig"]


def test_a_card_in_mig_mode_is_not_handed_out_whole(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"gpu.0.mig": "1 1"})
    hardware = bench.start()
    assert set(offered(hardware).withheld) == {"whole", "share"}
    with pytest.raises(Unsupported, match="-mig 0"):
        hardware.actions(Use("claim", card_of(hardware)), ())


def test_a_mode_that_was_turned_on_for_a_claim_changes_nothing_of_the_offer(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    hardware = bench.start()
    before = offered(hardware)
    mode, instance = hardware.actions(use_of(hardware, "1g.10gb", 3), ())
    keys = [mode.key, instance.key]
    hardware.ensure(mode)
    assert offered(hardware, keys) == before
    hardware.ensure(instance)
    assert offered(hardware, keys) == before
    hardware.release(instance, None)
    assert offered(hardware, keys) == before
    assert set(offered(hardware).withheld) == {"whole", "share"}


def test_instances_of_an_operator_leave_the_places_beside_them(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"gpu.0.mig": "1 1", "gpu.0.gi.1": "9 4 4", "gpu.0.gi.1.ci.0": 2})
    found = offered(bench.start())
    assert {name for name, amount in found.taken.items() if name.startswith("memory-slice-") and amount} == {
        f"memory-slice-{index}" for index in range(4, 8)
    }
    assert "3g.40gb:4" in found.reason


def test_processes_on_the_card_keep_it_from_mig_mode_and_nothing_stays_pending(state: Path) -> None:
    bench = NvidiaBench(state, H100, 1)
    bench.nvml.change({"gpu.0.busy": 1})
    with pytest.raises(NoRoom, match="processes use it"):
        create(bench, "1g.10gb")
    assert bench.nvml.state()["gpu.0.mig"] == "0 0"


def test_static_instances_are_offered_as_they_are_and_neither_made_nor_destroyed(state: Path) -> None:
    bench = NvidiaBench(state, A100, 1, mig="static")
    bench.nvml.change({"gpu.0.mig": "1 1", "gpu.0.gi.1": "9 4 4", "gpu.0.gi.1.ci.0": 2, "gpu.0.gi.2": "14 0 2"})
    hardware = bench.start()
    (card,) = hardware.cards()
    assert card.scheme
    assert [(part.profile, part.slot) for part in card.scheme.partitions] == [("3g.20gb", 4)]
    assert hardware.observe(card).found == ()
    use = Use("claim", card, card.scheme.partitions[0])
    assert hardware.actions(use, ()) == ()
    assert hardware.edits(use, {}).device_nodes[-1].path == "/dev/nvidia-caps/nvidia-cap13"


def test_a_card_without_static_instances_is_offered_whole(state: Path) -> None:
    hardware = NvidiaBench(state, A100, 1, mig="static").start()
    (card,) = hardware.cards()
    assert (card.scheme, hardware.observe(card).excluded) == (None, {})


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ((), []),
        (
            ("nvmlDeviceGetGpuInstancePossiblePlacements_v2",),
            ["placements of MIG instances are those of NVIDIA's manual"],
        ),
    ],
)
def test_a_driver_that_does_not_say_placements_is_said_once(
    state: Path, without: Sequence[str], said: Sequence[str]
) -> None:
    hardware = NvidiaBench(state, A100, 1, without=without).start()
    with capture_logs() as lines:
        for _ in range(2):
            assert hardware.cards()
    assert [line["event"] for line in lines] == said


def test_a_card_without_profiles_is_not_said_to_need_a_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    bench = NvidiaBench(tmp_path, L40S, 1)
    bench.nvml.change({"gpu.0.mig": "0 0"})
    hardware = bench.start()
    assert hardware.observe(hardware.cards()[0]).excluded == {}
