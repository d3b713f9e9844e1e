"""What could help a pod that no node takes: a changed node, the end of pods that come after it."""

from controller.reconcile import decide
from controller.reconcile.decisions import PodRefusal
from controller.reconcile.prospects import could_take, depends_on_other_pods, fits_without_later_pods, node_to_hold
from controller.refusal import Refusal
from controller.state import PodView
from driver.kube.api import NODES
from tests.unit.controller.filled_state import NOW, FilledState, node


def younger(pod: PodView) -> bool:
    return pod.priority < 10


def scene_of(*held: tuple[str, str, int]) -> tuple[FilledState, PodRefusal]:
    """``held``: pod, node/device and priority. The pod ``p`` of priority 10 asks for two cards and waits."""
    scene = FilledState(nodes=3)
    for pod, place, priority in held:
        scene.claim(f"{pod}-claim", at=place, by=(pod,))
        scene.pod(pod, f"{pod}-claim", gates=(), nodeName=place.split("/")[0], priority=priority)
    scene.claim("a", ("gpu.lode.dev", "gpu.lode.dev"))
    scene.pod("p", "a", priority=10)
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Refusal)
    return scene, decision


FULL = (
    ("one", "n1/gpu-0", 0),
    ("two", "n1/gpu-1", 0),
    ("high", "n2/gpu-0", 99),
    ("low", "n3/gpu-0", 5),
)


def test_the_node_with_the_fewest_pods_that_come_after_is_held() -> None:
    scene, decision = scene_of(*FULL)
    assert node_to_hold(scene.state, decision, younger) == "n3"


def test_a_node_that_pods_before_it_keep_is_not_held() -> None:
    scene, decision = scene_of(*FULL[2:3], ("x", "n1/gpu-0", 99), ("y", "n3/gpu-0", 99))
    assert node_to_hold(scene.state, decision, younger) == ""
    assert not fits_without_later_pods(scene.state, decision, "n1", younger)


def test_a_node_too_small_is_not_held() -> None:
    scene, decision = scene_of(*FULL)
    scene.put(NODES, node("n3", cpu="0"))
    assert node_to_hold(scene.state, decision, younger) == "n1"


def test_a_claim_that_a_pod_before_it_uses_too_does_not_end() -> None:
    scene, decision = scene_of(*FULL)
    scene.claim("low-claim", at="n3/gpu-0", by=("low", "high"))
    assert node_to_hold(scene.state, decision, younger) == "n1"


def test_asking_leaves_everything_as_it_was() -> None:
    scene, decision = scene_of(*FULL)
    before = scene.state.devices.ledger.usage_snapshot(), {name: view.used for name, view in scene.state.nodes.items()}
    node_to_hold(scene.state, decision, younger)
    assert (scene.state.devices.ledger.usage_snapshot(), {n: v.used for n, v in scene.state.nodes.items()}) == before
    assert decide(scene.state, "default/p", NOW) == decision


def test_only_a_node_that_could_take_the_pod_helps() -> None:
    scene, decision = scene_of(*FULL)
    assert [name for name in scene.state.nodes if could_take(scene.state, decision, name)] == []
    scene.claim("low-claim")
    assert [name for name in scene.state.nodes if could_take(scene.state, decision, name)] == ["n3"]


def test_a_node_where_kube_scheduler_can_make_room_helps() -> None:
    scene, decision = scene_of(*FULL)
    scene.pod("filler", gates=(), nodeName="n3", priority=1, cpu="7")
    scene.claim("low-claim")
    assert [name for name in scene.state.nodes if could_take(scene.state, decision, name)] == ["n3"]
    scene.pod("filler", gates=(), nodeName="n3", priority=11, cpu="8")
    assert [name for name in scene.state.nodes if could_take(scene.state, decision, name)] == []


def test_pods_with_terms_about_other_pods_depend_on_them() -> None:
    scene = FilledState()
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    scene.pod("plain")
    scene.pod("apart", affinity={"podAntiAffinity": required})
    assert not depends_on_other_pods(scene.state, scene.state.pods["default/plain"])
    assert depends_on_other_pods(scene.state, scene.state.pods["default/apart"])
