"""A gated pod gets its devices, in the order of writes the API wants, and only then is let go."""

from structlog.testing import capture_logs

from driver.kube.api import RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.names import FINALIZER
from tests.unit.controller.loop.world import GATE, ControllerWorld


def test_a_pod_gets_a_device_and_is_let_go() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    pod = world.add_pod("p", "a")
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]
    assert world.gates("p") == []
    assert world.condition("p") == ("True", "Allocated", "on node n1")
    reserved = world.claim("a")["status"]["reservedFor"]
    assert reserved == [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
    world.check()


def test_the_log_names_the_devices_of_a_pod_that_is_placed() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")
    with capture_logs() as lines:
        world.settle()
    (line,) = [line for line in lines if line["event"] == "pod placed"]
    assert (line["pod"], line["node"], line["devices"]) == ("default/p", "n1", {"default/a": ["gpu-0"]})


def test_a_slice_in_the_pool_of_another_node_is_reported_and_hides_nothing() -> None:
    world = ControllerWorld()
    spec = {
        "driver": "lode.dev",
        "nodeName": "n2",
        "pool": {"name": "n1/lode.dev", "generation": 10**12, "resourceSliceCount": 1},
        "devices": [],
    }
    world.api.create(RESOURCE_SLICES, {"metadata": {"name": "evil"}, "spec": spec})
    world.add_claim("a")
    world.add_pod("p", "a")
    with capture_logs() as lines:
        world.settle()
    assert world.devices("a") == ["n1/gpu-0"]
    (problem,) = {line["problem"] for line in lines if line["event"] == "object cannot be decoded"}
    assert "ResourceSlice evil: spec.pool.name: n1/lode.dev is not the pool of the node n2" in problem
    assert "delete the slice" in problem


def test_the_finalizers_of_others_stay() -> None:
    world = ControllerWorld()
    claim = world.add_claim("a")
    claim["metadata"]["finalizers"] = ["example.com/kept"]
    world.api.update(RESOURCE_CLAIMS, claim)
    world.add_pod("p", "a")
    world.settle()
    assert world.claim("a")["metadata"]["finalizers"] == ["example.com/kept", FINALIZER]


def test_the_writes_come_in_order_and_no_more_than_needed() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    assert world.meddler.calls == [
        "patch resourceclaims",
        "patch resourceclaims/status",
        "patch pods/status",
        "patch pods",
    ]


def test_a_pod_without_claims_of_ours_is_let_go_at_once() -> None:
    world = ControllerWorld()
    world.add_class("other.example.com", 'device.driver == "other.example.com"')
    world.add_claim("theirs", device_class="other.example.com")
    world.add_pod("plain", gates=(GATE, "kueue.x-k8s.io/admission"))
    world.add_pod("other", "theirs")
    world.settle()
    assert world.gates("plain") == ["kueue.x-k8s.io/admission"]
    assert world.gates("other") == []
    assert world.devices("theirs") == []


def test_ours_must_be_the_last_gate() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a", gates=(GATE, "kueue.x-k8s.io/admission"))
    world.settle(100)
    assert world.devices("a") == []
    assert world.gates("p") == [GATE, "kueue.x-k8s.io/admission"]
    assert world.events("p") == []


def test_a_pod_replaced_under_its_name_before_it_is_told_is_decided_anew_without_a_false_alarm() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")
    done: list[str] = []

    def replace(what: str, name: object) -> None:
        if what == "patch pods/status" and not done:
            done.append(what)
            world.remove_pod("p")
            world.add_pod("p", "a")

    world.meddler.before = replace
    world.settle()
    assert (world.condition("p")[0], world.gates("p")) == ("True", [])
    assert world.events("p", "WriteRefused") == []


def test_a_pod_beside_a_full_shared_claim_waits_before_anything_is_written() -> None:
    world = ControllerWorld(nodes=1, cards=2)
    world.add_claim("shared")
    world.add_pod("first", "shared", cpu="1m")
    world.settle(2)
    consumer = world.claim("shared")["status"]["reservedFor"][0]
    others = [{**consumer, "name": f"other-{number}", "uid": f"other-{number}"} for number in range(255)]
    patch = {"status": {"reservedFor": [consumer, *others]}}
    world.api.patch(RESOURCE_CLAIMS, "shared", patch, namespace="default", subresource="status")
    world.add_claim("own")
    world.meddler.calls.clear()
    world.add_pod("q", "own", "shared", cpu="1m")
    world.settle(1800)
    assert world.condition("q")[1] == "ClaimFull"
    assert not [call for call in world.meddler.calls if call.startswith("patch resourceclaims")]
    patch = {"status": {"reservedFor": [consumer]}}
    world.api.patch(RESOURCE_CLAIMS, "shared", patch, namespace="default", subresource="status")
    world.settle(5)
    assert world.gates("q") == [], "there is room again"
