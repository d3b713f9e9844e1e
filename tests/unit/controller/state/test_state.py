"""The state kept by changes equals the state rebuilt from the objects, in whatever order and however late they come."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import Fleet
from controller.state import State
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from driver.kube.reflector import Removed, Synced, Upserted
from tests.unit.controller.scene import NAMES, claim, device_class, node, pod, slice_on

KINDS = (NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES)


NODE_NAMES = ("n1", "n2")


def seen(state: State) -> dict[str, Any]:
    """Everything decisions look at."""
    return {
        "pods": dict(state.pods),
        "claims": {key: record.claim for key, record in state.claims.items()},
        "classes": dict(state.classes),
        "order": list(state.nodes.order),
        "used": {name: +view.used for name in NODE_NAMES if +(view := state.nodes.view(name)).used},
        "counted": {name: view.pods for name in NODE_NAMES if (view := state.nodes.view(name)).pods},
        "users": {key: set(state.pods.using(key)) for key in state.claims},
        "usage": state.devices.usage_snapshot(),
        "kinds": state.allocated_by_kind(),
    }


PLACES = ("", "n1/gpu-0", "n1/gpu-1", "n2/gpu-0")


@st.composite
def an_object(draw: st.DrawFn) -> tuple[Any, Object]:
    name = draw(st.sampled_from("ab"))
    match draw(st.sampled_from(["node", "pod", "claim", "slice", "class"])):
        case "node":
            return NODES, node(draw(st.sampled_from(["n1", "n2"])), ready=draw(st.booleans()))
        case "pod":
            phase = draw(st.sampled_from(["Pending", "Succeeded"]))
            bound: dict[str, Any] = draw(st.sampled_from([{}, {"nodeName": "n1"}]))
            return PODS, pod(
                name, *draw(st.sets(st.sampled_from("xy"))), phase=phase, cpu="2" if name == "a" else "1", **bound
            )
        case "claim":
            by = tuple(draw(st.sets(st.sampled_from("ab"))))
            return RESOURCE_CLAIMS, claim(draw(st.sampled_from("xy")), at=draw(st.sampled_from(PLACES)), by=by)
        case "slice":
            return RESOURCE_SLICES, slice_on(draw(st.sampled_from(["n1", "n2"])), draw(st.integers(1, 3)))
    return DEVICE_CLASSES, device_class("gpu.lode.dev", draw(st.sampled_from(['"lode.dev"', "true"])))


Steps = st.lists(
    st.tuples(st.sampled_from(["write", "write", "write", "remove", "replace", "relist", "late"]), an_object()),
    max_size=40,
)


class Server:
    """Objects with versions, as an API server has them, and everything it ever said."""

    def __init__(self) -> None:
        self.objects: dict[Any, dict[str, Object]] = {kind: {} for kind in KINDS}
        self.said: list[tuple[Any, Object]] = []
        self._version = 0

    def write(self, kind: Any, obj: Object, uid: str = "") -> Upserted:
        key = obj["metadata"]["name"]
        known = self.objects[kind].get(key)
        uid = uid or (known["metadata"]["uid"] if known else f"uid-{key}")
        self._version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "uid": uid, "resourceVersion": str(self._version)}}
        self.objects[kind][key] = obj
        self.said.append((kind, obj))
        return Upserted(kind, obj)

    def remove(self, kind: Any, obj: Object) -> Removed | None:
        gone = copy.deepcopy(self.objects[kind].pop(obj["metadata"]["name"], None))
        if gone is None:
            return None
        self._version += 1
        gone["metadata"]["resourceVersion"] = str(self._version)
        return Removed(kind, gone)

    def replace(self, kind: Any, obj: Object) -> Upserted:
        """Deleted and made anew, and the watch that broke in between never told of the first."""
        self.objects[kind].pop(obj["metadata"]["name"], None)
        return self.write(kind, obj, uid=f"uid-{self._version}")

    def listed(self, kind: Any) -> Synced:
        return Synced(kind, tuple(self.objects[kind].values()))


@given(Steps)
def test_kept_by_changes_equals_rebuilt(steps: list[tuple[str, tuple[Any, Object]]]) -> None:
    server, state = Server(), State(Fleet(), NAMES)
    for what, (kind, obj) in steps:
        match what:
            case "write":
                state.apply(server.write(kind, obj))
            case "remove":
                if removed := server.remove(kind, obj):
                    state.apply(removed)
            case "replace":
                state.apply(server.replace(kind, obj))
            case "relist":
                state.apply(server.listed(kind))
            case "late":
                alive = [(k, o) for k, o in server.said if o["metadata"]["name"] in server.objects[k]]
                for said_kind, said in alive[:3]:
                    state.apply(Upserted(said_kind, said))
    rebuilt = State(Fleet(), NAMES)
    for kind in KINDS:
        rebuilt.apply(server.listed(kind))
    assert seen(state) == seen(rebuilt)


def test_an_older_version_never_makes_a_device_look_free() -> None:
    server, state = Server(), State(Fleet(), NAMES)
    before = server.write(RESOURCE_CLAIMS, claim("x"))
    after = server.write(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0"))
    state.apply(after)
    used = state.devices.usage_snapshot()
    assert used
    state.apply(before)
    state.apply(Synced(RESOURCE_CLAIMS, (before.object,)))
    assert state.devices.usage_snapshot() == used


def test_only_what_can_help_wakes_waiting_pods() -> None:
    server, state = Server(), State(Fleet(), NAMES)

    def freed(kind: Any, obj: Object) -> bool:
        return state.apply(server.write(kind, obj)).freed

    assert freed(NODES, node("n1"))
    assert not freed(NODES, {**node("n1"), "status": {**node("n1")["status"], "nodeInfo": {}}})
    assert freed(NODES, node("n1", ready=False))
    assert freed(RESOURCE_SLICES, slice_on("n1"))
    assert freed(DEVICE_CLASSES, device_class("gpu.lode.dev", "true"))
    assert not freed(RESOURCE_CLAIMS, claim("x"))
    assert not freed(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0", by=("a",)))
    assert not freed(PODS, pod("a", "x"))
    assert not freed(PODS, pod("a", "x", nodeName="n1", gates=()))
    assert freed(PODS, pod("a", "x", nodeName="n1", gates=(), phase="Succeeded"))
    assert freed(RESOURCE_CLAIMS, claim("x"))
