"""The state kept by changes equals the state rebuilt from the objects, in whatever order and however late they come."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import Fleet
from controller.placement import fits, needs_of
from controller.state import DEVICE_TAINT_RULES_BETA, Changes, State
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
)
from driver.kube.objects import object_key
from driver.kube.reflector import Missing, Restored, Synced, Unreadable, Upserted
from driver.model import DeviceId
from driver.wire import claim_from
from tests.unit.controller.filled_state import (
    NAMES,
    claim,
    device_class,
    in_gang,
    node,
    owned_by_job,
    pod,
    slice_for_all,
    slice_on,
    taint_rule,
)
from tests.unit.controller.state.served_objects import KINDS, NODE_NAMES, ServedObjects, furnished, report


def seen(state: State) -> dict[str, Any]:
    """Everything decisions look at."""
    gangs = state.gangs
    return {
        "pods": dict(state.pods),
        "claims": {key: record.claim for key, record in state.claims.items()},
        "classes": dict(state.classes),
        "order": list(state.nodes.order),
        "used": {name: +view.used for name in NODE_NAMES if +(view := state.nodes.view(name)).used},
        "counted": {name: view.pods for name in NODE_NAMES if (view := state.nodes.view(name)).pods},
        "users": {key: set(state.pods.using(key)) for key in state.claims},
        "holding": {name: set(state.claims.holding(NAMES.driver, NAMES.pool(name))) for name in NODE_NAMES},
        "usage": state.devices.ledger.usage_snapshot(),
        "kinds": state.allocated_by_kind(),
        "backed": state.nodes.extended_resources,
        "verdicts": verdicts(state),
        "gangs": {gang: (gangs.members(gang), gangs.terms(gang), gangs.succeeded(gang)) for gang in gangs},
        "ranks": {key: (gangs.gang_of(key), gangs.rank(key), gangs.faults(key)) for key in state.pods},
    }


TOLERANT = claim("tolerant")
TOLERANT["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [{"operator": "Exists"}]
ASKED = [
    [claim_from(claim("one"))],
    [claim_from(claim("two", ("gpu.lode.dev", "gpu.lode.dev")))],
    [claim_from(TOLERANT)],
    [],
]
NEEDS = needs_of(pod("asking", cpu="6"))


def verdicts(state: State) -> dict[tuple[str, int], Any]:
    """What pods of a few sorts would get on each node that exists; None if the node refuses them."""
    found: dict[tuple[str, int], Any] = {}
    for name in state.nodes:
        for number, claims in enumerate(ASKED):
            refused = fits("ns/asking", NEEDS, state.nodes[name], state.nodes.extended_resources)
            answer = state.devices.allocate(name, state.nodes.labels_of(name), claims)
            found[name, number] = None if refused or not isinstance(answer, tuple) else answer
    return found


GANGS: tuple[Object, ...] = (
    {},
    in_gang(minAvailable=2),
    in_gang(name="g", minAvailable=2),
    in_gang(name="g", minAvailable=1),
)
PLACES = ("", "n1/gpu-0", "n1/gpu-1", "n2/gpu-0")


@st.composite
def an_object(draw: st.DrawFn) -> tuple[Any, Object]:
    name = draw(st.sampled_from("ab"))
    match draw(st.sampled_from(["node", "pod", "claim", "slice", "class", "rule"])):
        case "rule":
            return DEVICE_TAINT_RULES, taint_rule(name, draw(st.sampled_from(["n1", "n2"])), draw(st.booleans()))
        case "node":
            return NODES, node(draw(st.sampled_from(["n1", "n2"])), ready=draw(st.booleans()))
        case "pod":
            phase = draw(st.sampled_from(["Pending", "Succeeded"]))
            bound: dict[str, Any] = draw(st.sampled_from([{}, {"nodeName": "n1"}]))
            made = pod(
                name, *draw(st.sets(st.sampled_from("xy"))), phase=phase, cpu="2" if name == "a" else "1", **bound
            )
            return PODS, owned_by_job(made, draw(st.integers(0, 1)))
        case "claim":
            by = tuple(draw(st.sets(st.sampled_from("ab"))))
            gang: dict[str, Any] = draw(st.sampled_from(GANGS))
            return RESOURCE_CLAIMS, claim(draw(st.sampled_from("xy")), at=draw(st.sampled_from(PLACES)), by=by, **gang)
        case "slice":
            everywhere = draw(st.integers(0, 5)) == 0
            if everywhere:
                return RESOURCE_SLICES, slice_for_all(draw(st.integers(1, 2)))
            return RESOURCE_SLICES, slice_on(draw(st.sampled_from(["n1", "n2"])), draw(st.integers(1, 3)))
    expression = draw(st.sampled_from(['device.driver == "lode.dev"', "true"]))
    extended = draw(st.sampled_from([{}, {"extendedResourceName": "lode.dev/gpu"}]))
    return DEVICE_CLASSES, device_class("gpu.lode.dev", expression, **extended)


STEPS = ("write", "write", "write", "remove", "replace", "relist", "cut", "late", "late end", "answer")
Steps = st.lists(st.tuples(st.sampled_from(STEPS), an_object()), max_size=40)


def take_step(server: ServedObjects, state: State, what: str, kind: Any, obj: Object) -> list[Changes]:
    match what:
        case "write":
            return report(state, server.write(kind, obj))
        case "remove":
            removed = server.remove(kind, obj)
            return report(state, removed) if removed else []
        case "replace":
            return report(state, server.replace(kind, obj))
        case "relist":
            return report(state, *server.listed(kind))
        case "cut":
            return report(state, *server.listed(kind)[:-1])
        case "late":
            alive = [(k, o) for k, o in server.said if o["metadata"]["name"] in server.objects[k]]
            return report(state, *(Upserted(said_kind, said) for said_kind, said in alive[:3]))
        case "late end":
            # The watch never told of it; another one, from before, does.
            ended, server.ended = server.ended, []
            return report(
                state, *(end for end in ended if end.object["metadata"]["name"] in server.objects[end.resource])
            )
    return [state.put(said_kind, said) for said_kind, said in server.said[-3:]]


@given(Steps, Steps, Steps, st.sampled_from([0, 1000]))
def test_kept_by_changes_equals_rebuilt_after_a_backup_was_restored(
    before: list[tuple[str, tuple[Any, Object]]],
    lost: list[tuple[str, tuple[Any, Object]]],
    after: list[tuple[str, tuple[Any, Object]]],
    bump: int,
) -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    for kind in KINDS:
        report(state, *server.listed(kind))
    for what, (kind, obj) in before:
        take_step(server, state, what, kind, obj)
    backup = copy.deepcopy(server)
    for what, (kind, obj) in lost:
        take_step(server, state, what, kind, obj)
    report(state, *server.restore(backup, bump))
    for what, (kind, obj) in after:
        take_step(server, state, what, kind, obj)
    assert seen(state) == seen(rebuilt(server))


def rebuilt(server: ServedObjects) -> State:
    state = State(Fleet(), NAMES)
    for kind in KINDS:
        report(state, *server.listed(kind))
    return state


@given(Steps)
def test_kept_by_changes_equals_rebuilt(steps: list[tuple[str, tuple[Any, Object]]]) -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    for kind in KINDS:
        report(state, *server.listed(kind))
    for what, (kind, obj) in steps:
        take_step(server, state, what, kind, obj)
    assert seen(state) == seen(rebuilt(server))


@settings(max_examples=100)
@given(Steps)
def test_another_answer_of_a_node_shows_in_its_version_and_wakes_whom_it_can_help(
    steps: list[tuple[str, tuple[Any, Object]]],
) -> None:
    server, state = furnished()
    for what, (kind, obj) in steps:
        before, generation = verdicts(state), state.nodes.generation
        versions = {name: state.nodes.version_of(name) for name in NODE_NAMES}
        changes = take_step(server, state, what, kind, obj)
        favoured = {name for change in changes for name in change.favoured}
        for (name, sort), verdict in verdicts(state).items():
            if verdict != before.get((name, sort)):
                assert state.nodes.version_of(name) != versions[name]
                assert state.nodes.generation != generation
            if verdict is not None and before.get((name, sort)) is None:
                assert favoured & {name, ""}


def test_an_older_version_never_makes_a_device_look_free() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    before = server.write(RESOURCE_CLAIMS, claim("x"))
    after = server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0"))
    report(state, after)
    used = state.devices.ledger.usage_snapshot()
    assert used
    report(state, before, Synced(RESOURCE_CLAIMS, frozenset({object_key(before.object)}), "1"))
    assert state.devices.ledger.usage_snapshot() == used


def test_a_list_removes_what_it_does_not_contain_but_nothing_that_is_newer_than_it() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    report(state, server.write(RESOURCE_CLAIMS, claim("x")), server.write(RESOURCE_CLAIMS, claim("y")))
    server.objects[RESOURCE_CLAIMS].clear()
    listed = server.listed(RESOURCE_CLAIMS)
    state.put(RESOURCE_CLAIMS, server.write(RESOURCE_CLAIMS, claim("z")).object)
    report(state, *listed)
    assert set(state.claims) == {"default/z"}


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    report(state, *server.listed(RESOURCE_CLAIMS))
    answer = server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0"))
    gone = server.remove(RESOURCE_CLAIMS, answer.object)
    assert gone
    report(state, answer, gone)
    state.put(RESOURCE_CLAIMS, answer.object)
    assert not state.claims
    assert not state.devices.ledger.usage_snapshot()


def test_the_answer_that_an_object_does_not_exist_says_nothing_about_another_one_of_its_name() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    report(state, server.write(PODS, pod("p")), server.write(PODS, pod("p"), uid="another"))
    assert not state.drop(PODS, "default/p", "uid-p").pods
    assert "default/p" in state.pods
    assert state.drop(PODS, "default/p", "another").pods
    assert "default/p" not in state.pods


def test_a_list_is_the_truth_after_the_api_was_restored_from_a_backup() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    backup = [server.write(RESOURCE_CLAIMS, claim("x")), server.write(RESOURCE_CLAIMS, claim("y", at="n1/gpu-0"))]
    report(state, server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-1")), *server.listed(RESOURCE_CLAIMS))
    report(state, server.write(RESOURCE_CLAIMS, claim("made later", at="n1/gpu-2")))
    listed = Synced(RESOURCE_CLAIMS, frozenset({"default/x", "default/y"}), "2")
    report(state, Restored(RESOURCE_CLAIMS), *backup, listed)
    assert {device.device for device in state.devices.ledger.usage_snapshot()} == {"gpu-0"}
    assert set(state.claims) == {"default/x", "default/y"}


def test_a_write_that_is_answered_before_the_list_after_an_outage_is_not_undone_by_it() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    free = server.write(RESOURCE_CLAIMS, claim("x"))
    report(state, free, *server.listed(RESOURCE_CLAIMS))
    allocated = server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0")).object
    report(state, Restored(RESOURCE_CLAIMS))
    state.put(RESOURCE_CLAIMS, allocated)
    report(state, free, Synced(RESOURCE_CLAIMS, frozenset({"default/x"}), "1"))
    assert {device.device for device in state.devices.ledger.usage_snapshot()} == {"gpu-0"}


def test_what_a_new_leader_lists_counts_although_its_watch_has_not_told_of_the_backup_yet() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    lost = server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0"))
    backup = copy.deepcopy(server)
    report(state, lost, *server.listed(RESOURCE_CLAIMS), *filter(None, [server.remove(RESOURCE_CLAIMS, lost.object)]))
    assert not state.claims
    server.restore(backup, 1000)
    state.put(RESOURCE_CLAIMS, lost.object)
    assert not state.claims, "an answer that came late"
    state.put(RESOURCE_CLAIMS, lost.object, server.version)
    assert set(state.claims) == {"default/x"}


def test_a_taint_rule_counts_as_long_as_one_version_of_it_is_served() -> None:
    def tainted() -> int:
        return sum(
            bool(state.devices.ledger.taints(DeviceId(NAMES.driver, NAMES.pool("n1"), f"gpu-{at}"))) for at in range(4)
        )

    server, state = furnished()
    state.devices.index()
    rule = server.write(DEVICE_TAINT_RULES, taint_rule("drained", "n1", False))
    in_beta = Upserted(DEVICE_TAINT_RULES_BETA, rule.object)
    report(state, in_beta)
    drained = tainted()
    assert drained
    report(state, rule)
    assert len(state.devices.ledger.taints(DeviceId(NAMES.driver, NAMES.pool("n1"), "gpu-0"))) == 1, "it is one rule"
    report(state, Missing(DEVICE_TAINT_RULES_BETA))
    assert tainted() == drained, "the upgrade has ended"
    report(state, Missing(DEVICE_TAINT_RULES))
    assert not tainted()


def test_what_is_not_served_does_not_exist_and_what_may_not_be_read_is_kept() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    report(state, server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0")), *server.listed(RESOURCE_CLAIMS))
    report(state, Unreadable(RESOURCE_CLAIMS))
    assert set(state.claims) == {"default/x"}
    report(state, Missing(RESOURCE_CLAIMS))
    assert not state.claims
    assert not state.devices.ledger.usage_snapshot()
    again = server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0"))
    report(state, again)
    assert set(state.claims) == {"default/x"}, "the kind is served again"


def test_the_state_is_complete_when_the_list_of_every_kind_has_ended() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    server.write(PODS, pod("a"))
    for kind in state.resources:
        assert not state.complete
        server.objects.setdefault(kind, {})
        *objects, synced = server.listed(kind)
        report(state, *objects)
        assert not state.complete
        report(state, synced)
    assert state.complete


def test_a_pod_takes_cpu_on_the_node_of_its_devices_unless_it_can_never_start() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)

    def counted(**options: Any) -> int:
        report(state, server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0", **options)))
        return state.nodes.view("n1").pods

    report(state, server.write(NODES, node("n1")), server.write(PODS, pod("a", "x", cpu="2")))
    assert counted() == 0, "the claim is not reserved for the pod"
    assert counted(by=("a",)) == 1
    assert counted(by=("a",), deleting=True) == 0
