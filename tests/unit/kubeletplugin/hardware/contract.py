"""What every backend of ``Hardware`` must do. A backend's tests derive a class ``Test...`` from ``HardwareContract``.

It says by a fixture ``bench`` on which node the tests run, and with which uses of devices. Where these have partitions,
the class derives from ``PartitionContract`` too, and by how partitions are made from one of those below it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pytest

from driver.errors import LodeError
from kubeletplugin.hardware import (
    Action,
    Card,
    CardGone,
    Edits,
    Handle,
    Hardware,
    InUse,
    NoRoom,
    Readings,
    Unsupported,
    Use,
)
from kubeletplugin.hardware.actions import MigInstance, MigMode, PluginAllocation, VnpuInstance, action_from, action_to
from kubeletplugin.hardware.vendors import facts_of


class HardwareBench(Protocol):
    """A node with one kind of hardware, which outlives the instances of its backend."""

    def start(self) -> Hardware:
        """A new instance of the backend, as after a restart of the plugin."""
        ...

    def uses(self) -> Sequence[Use]:
        """Uses of devices, each of another claim, that can all exist at once; at least one of each kind of action."""
        ...

    def unsupported(self) -> Use:
        """A use whose config the card cannot do."""
        ...

    def occupy(self, action: Action) -> None:
        """A process starts to use what exists by this action."""
        ...

    def vacate(self, action: Action) -> None:
        """The process ends."""
        ...

    def make_foreign(self, action: Action) -> None:
        """Somebody else creates what this action would create, past the backend."""
        ...

    def reboot(self) -> None:
        """The machine starts again; what the hardware does not keep is gone."""
        ...

    def lose(self, card: Card) -> None:
        """The card falls off the bus."""
        ...

    def work(self, card: Card) -> Readings:
        """The card computes for somebody; returns what it measures from now on."""
        ...


@dataclass
class Made:
    """A use, and what was created for it."""

    use: Use
    actions: tuple[Action, ...]
    handles: dict[str, Handle]


def make(hardware: Hardware, use: Use, taken: Sequence[str] = ()) -> Made:
    """Create all that a use needs."""
    actions = hardware.actions(use, taken)
    return Made(use, actions, {action.key: hardware.ensure(action) for action in actions})


def make_all(bench: HardwareBench, hardware: Hardware) -> list[Made]:
    """Create all that the bench's uses need, one after another."""
    made: list[Made] = []
    for use in bench.uses():
        made.append(make(hardware, use, [action.key for each in made for action in each.actions]))
    return made


def undo(hardware: Hardware, made: Made, keep: Sequence[Made] = ()) -> None:
    """Release what no other use needs, in reverse."""
    kept = {action.key for other in keep for action in other.actions}
    for action in reversed(made.actions):
        if action.key not in kept:
            hardware.release(action, made.handles[action.key])


def undo_all(hardware: Hardware, made: Sequence[Made], *, recorded: bool = True) -> None:
    """Release everything: what is shared after all that is not, as its last owner goes."""
    pairs = [(action, each.handles[action.key]) for each in made for action in reversed(each.actions)]
    for action, handle in sorted(pairs, key=lambda pair: pair[0].shared):
        hardware.release(action, handle if recorded else None)


def found(hardware: Hardware, cards: Sequence[Card] | None = None) -> dict[str, Handle]:
    """What exists on the cards, by key."""
    states = [hardware.observe(card) for card in cards or hardware.cards()]
    return {each.action.key: each.handle for state in states for each in state.found}


def partitions(made: Sequence[Made]) -> list[tuple[Action, Handle]]:
    """The partitions among what was created."""
    pairs = [(action, each.handles[action.key]) for each in made for action in each.actions]
    return [(action, handle) for action, handle in pairs if isinstance(action, MigInstance | VnpuInstance)]


class HardwareContract:
    """The tests. Derive from it and give a fixture ``bench``."""

    def test_cards_differ_and_each_has_its_health(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        cards = hardware.cards()
        assert len({card.uuid for card in cards}) == len(cards) > 0
        gpus = [card for card in cards if card.unit == "gpu"]  # two NPUs may be behind one PCI function
        assert len({card.pci_bus_id for card in gpus}) == len(gpus)
        assert list(cards) == sorted(cards, key=lambda card: (card.unit, card.index))
        assert {card.name for card in cards} <= set(hardware.health())
        assert bench.start().cards() == cards

    def test_nothing_exists_before_it_is_made(self, bench: HardwareBench) -> None:
        assert found(bench.start()) == {}

    def test_asking_for_actions_changes_nothing_and_has_one_answer(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        for use in bench.uses():
            assert hardware.actions(use, ()) == hardware.actions(use, ()) == bench.start().actions(use, ())
        assert found(hardware) == {}

    def test_what_is_asked_together_is_answered_as_one_by_one(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        for use in bench.uses():
            assessment, actions = hardware.assess(use, ()), hardware.actions(use, ())
            assert (assessment.actions, assessment.state) == (actions, hardware.observe(use.card))
            assert assessment.edits == (None if actions else hardware.edits(use, {}))
        make_all(bench, hardware)
        assert all(hardware.assess(use, ()).edits is None for use in bench.uses() if hardware.observe(use.card).found)

    def test_actions_survive_the_checkpoint(self, bench: HardwareBench) -> None:
        for use in bench.uses():
            for action in bench.start().actions(use, ()):
                assert action_from(action_to(action)) == action

    def test_actions_are_about_the_card_of_the_use(self, bench: HardwareBench) -> None:
        for use in bench.uses():
            assert {action.card for action in bench.start().actions(use, ())} <= {use.card.uuid, *use.cards_of_request}

    def test_what_is_made_is_found_by_every_instance_and_made_once(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        made = make_all(bench, hardware)
        handles = {key: handle for each in made for key, handle in each.handles.items()}
        assert found(hardware) == found(bench.start()) == handles
        for instance in (hardware, bench.start()):
            for each in made:
                assert {action.key: instance.ensure(action) for action in each.actions} == each.handles
        assert found(hardware) == handles

    def test_handles_are_text(self, bench: HardwareBench) -> None:
        for each in make_all(bench, bench.start()):
            for handle in each.handles.values():
                assert all(isinstance(item, str) for pair in handle.items() for item in pair)

    def test_what_is_released_is_gone_and_the_rest_stays(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        made = make_all(bench, hardware)
        while made:
            last = made.pop()
            undo(hardware, last, made)
            assert set(found(bench.start())) == {action.key for each in made for action in each.actions}

    def test_what_is_absent_is_released_with_success(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        for use in bench.uses():
            for action in hardware.actions(use, ()):
                hardware.release(action, None)
                hardware.release(action, {"uuid": "of something long gone"})
        made = make_all(bench, hardware)
        for _ in range(2):
            undo_all(hardware, made)
        assert found(hardware) == {}

    def test_what_was_made_but_not_recorded_is_released_by_its_action_alone(self, bench: HardwareBench) -> None:
        made = make_all(bench, bench.start())
        after_crash = bench.start()
        undo_all(after_crash, made, recorded=False)
        assert found(after_crash) == {}

    def test_what_a_card_cannot_do_is_refused_before_anything_is_done(self, bench: HardwareBench) -> None:
        use = bench.unsupported()
        hardware = bench.start()
        with pytest.raises(Unsupported, match=r"\w+ \w+"):
            hardware.actions(use, ())
        assert found(hardware) == {}

    def test_containers_get_device_nodes_and_no_card_by_their_images_wish(self, bench: HardwareBench) -> None:
        for each in make_all(bench, bench.start()):
            edits = bench.start().edits(each.use, each.handles)
            _check_edits(edits)
            if variable := facts_of(each.use.card.vendor).visible_devices:
                assert dict(edits.env)[variable] == "void"
            assert edits == bench.start().edits(each.use, each.handles), "edits must not differ between two questions"

    def test_after_a_reboot_everything_can_be_made_again(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        made = make_all(bench, hardware)
        bench.reboot()
        again = bench.start()
        keys = {action.key for each in made for action in each.actions}
        assert set(found(again)) <= keys
        for each in made:
            handles: Mapping[str, Handle] = {action.key: again.ensure(action) for action in each.actions}
            _check_edits(again.edits(each.use, handles))
        assert set(found(again)) == keys

    def test_of_a_card_that_is_lost_nothing_is_known(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        (first, *others) = make_all(bench, hardware)
        bench.lose(first.use.card)
        for instance in (hardware, bench.start()):
            with pytest.raises(CardGone):
                instance.observe(first.use.card)
            with pytest.raises(CardGone):
                instance.readings(first.use.card)
            for action in first.actions:
                if not isinstance(action, PluginAllocation):  # a record of this program, which needs no card to go
                    with pytest.raises(CardGone):
                        instance.release(action, first.handles[action.key])
                with pytest.raises(CardGone):
                    instance.ensure(action)
            rest = {action.key for other in others for action in other.actions if action.card != first.use.card.uuid}
            assert rest <= set(found(instance, [card for card in instance.cards() if card.uuid != first.use.card.uuid]))
        health = hardware.health().get(first.use.card.name)
        assert health is None or not health.healthy

    def test_every_refusal_is_an_error_of_this_project(self, bench: HardwareBench) -> None:
        absent = replace(bench.start().cards()[0], uuid="absent")
        hardware = bench.start()
        with pytest.raises(LodeError, match="absent"):
            hardware.observe(absent)
        with pytest.raises(LodeError, match="absent"):
            hardware.actions(Use("claim", absent), ())
        with pytest.raises(LodeError, match="absent"):
            hardware.edits(Use("claim", absent), {})
        with pytest.raises(LodeError, match="absent"):
            hardware.readings(absent)

    def test_a_card_says_what_it_measures_and_nothing_is_changed_by_asking(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        made = make_all(bench, hardware)
        before = found(hardware)
        card = made[-1].use.card
        for measured in (bench.work(card), bench.work(card)):
            assert hardware.readings(card) == bench.start().readings(card) == measured
        assert found(hardware) == before

    def test_readings_are_in_the_units_of_the_port(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        for card in hardware.cards():
            bench.work(card)
            values = hardware.readings(card).values
            assert 0 <= values.get("utilization", 0) <= 1
            assert 0 <= values.get("memoryUsed", 0) <= card.memory_mib * 1024**2
            assert 0 < values.get("temperature", 20) < 150
            assert 0 < values.get("power", 20) < 3000


class PartitionContract:
    """Tests of cards that can be divided."""

    def test_what_has_another_handle_is_somebody_elses(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        mine = [(action, handle) for action, handle in partitions(make_all(bench, hardware)) if handle]
        for action, handle in mine:
            hardware.release(action, {name: f"{value}0" for name, value in handle.items()})
            assert found(hardware)[action.key] == handle

    def test_what_is_in_use_stays_until_it_is_not(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        for action, handle in partitions(make_all(bench, hardware)):
            bench.occupy(action)
            for instance in (hardware, bench.start()):
                with pytest.raises(InUse):
                    instance.release(action, handle)
            assert action.key in found(hardware)
            bench.vacate(action)
            hardware.release(action, handle)
            assert action.key not in found(hardware)

    def test_what_somebody_else_made_is_found(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        for use in bench.uses():
            for action in hardware.actions(use, ()):
                if isinstance(action, MigInstance | VnpuInstance):
                    bench.make_foreign(action)
                    assert action.key in found(hardware, [use.card])
                    return
        pytest.fail("no partitions")

    def test_no_two_partitions_take_the_same_place(self, bench: HardwareBench) -> None:
        """However many of one kind are asked for, the last is refused, and nothing is left of it."""
        hardware = bench.start()
        made = make_all(bench, hardware)
        whole = [each for each in made if each.use.partition]
        use, taken = whole[0].use, [action.key for each in made for action in each.actions]
        placed = whole[0].actions[-1]
        for number in range(64):
            before = found(hardware)
            try:
                wanted = hardware.actions(replace(use, claim=f"another-{number}"), taken)
                if isinstance(placed, MigInstance):
                    wanted = (replace(placed, profile=_other_profile(use)),)
                for action in wanted:
                    hardware.ensure(action)
                    taken.append(action.key)
            except NoRoom:
                assert found(hardware) == before
                return
        pytest.fail("the card has room for everything")


class MigModeContract(PartitionContract):
    """Tests of cards that are divided in a mode of their own."""

    def test_a_mode_that_a_partition_of_somebody_else_needs_stays(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        for use in bench.uses():
            actions = hardware.actions(use, ())
            if not actions or not isinstance(actions[0], MigMode):
                continue
            mode, instance = actions
            handle = hardware.ensure(mode)
            bench.make_foreign(instance)
            hardware.release(mode, handle)
            assert instance.key in found(hardware, [use.card])
            return
        pytest.fail("no modes")


class ChosenIdContract(PartitionContract):
    """Tests of cards whose partitions have ids that the backend chooses."""

    def test_an_id_that_is_chosen_is_free_on_the_card_and_in_the_checkpoint(self, bench: HardwareBench) -> None:
        hardware = bench.start()
        choices = [
            (use, action)
            for use in bench.uses()
            for action in hardware.actions(use, ())
            if isinstance(action, VnpuInstance)
        ]
        use, first = choices[0]
        second = hardware.actions(use, [first.key])
        assert first not in second
        bench.make_foreign(first)
        assert first not in hardware.actions(use, ())


def _other_profile(use: Use) -> str:
    """A profile that fits at the place of the use's partition, were that not taken."""
    assert use.card.scheme
    assert use.partition
    places = [part for part in use.card.scheme.partitions if part.slot == use.partition.slot]
    return next(part.profile for part in places if part.profile != use.partition.profile)


def _check_edits(edits: Edits) -> None:
    assert edits.device_nodes
    for node in edits.device_nodes:
        assert node.path.startswith("/dev/")
        assert node.host_path.startswith("/dev/")
    for mount in edits.mounts:
        assert mount.host_path.startswith("/")
        assert mount.container_path.startswith("/")
    assert len({name for name, _ in edits.env}) == len(edits.env)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name, _ in edits.env)
    for hook in edits.hooks:
        assert hook.path.startswith("/")
        assert hook.args
