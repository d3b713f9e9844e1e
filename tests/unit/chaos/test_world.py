"""What is printed on a node is read as it is meant."""

import subprocess

from tests.chaos.world import SCAN, ContainerReading, NodeReading, node_from

POD = "148b2758-d7ab-4928-89e4-69e6ec62b2c8"
ONE, TWO = "7e1ea9c5-7358-4a81-8674-37419466e472", "964a870c-7c87-4b74-9d87-8f9f9cdf5a86"
PRINTED = f"""/var/run/cdi/lode.dev-claim_{ONE}.json
/var/lib/kubelet/plugins/lode.dev/dra-device-metadata/{ONE}_card.json
@@@
{{"kind": "checkpoint"}}
{{"claims": {{}}}}
@@@
{{
  "existing": []
}}
@@@
pod 0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{POD.replace("-", "_")}.slice/x.scope
file /dra-device-metadata/{ONE}_card.json
file /dra-device-metadata/{TWO}_c1.json//deleted
device gpu-0
device gpu-1
pod 12:memory:/kubelet/kubepods/pod{POD}/x
file /dra-device-metadata/{TWO}_c1.json
bridged card1
bridged render1
"""


def test_a_node_with_two_containers() -> None:
    node = node_from("n", PRINTED)
    assert node.files == (
        f"/var/lib/kubelet/plugins/lode.dev/dra-device-metadata/{ONE}_card.json",
        f"/var/run/cdi/lode.dev-claim_{ONE}.json",
    )
    assert node.checkpoint == b'{"kind": "checkpoint"}\n{"claims": {}}\n'
    assert node.hardware.split() == ["{", '"existing":', "[]", "}"]
    assert node.containers == (
        ContainerReading(POD, frozenset({(ONE, "card"), (TWO, "c1")}), frozenset({"gpu-0", "gpu-1"})),
        ContainerReading(POD, frozenset({(TWO, "c1")}), bridged=frozenset({"card1"})),
    )
    assert node.containers[0].claims == {ONE, TWO}


def test_a_node_with_nothing() -> None:
    assert node_from("n", "@@@\n@@@\n@@@\n") == NodeReading("n")


def test_the_script_runs_in_a_shell_and_prints_all_parts() -> None:
    done = subprocess.run(["sh", "-c", SCAN], capture_output=True, text=True, check=False)
    assert done.stdout.count("@@@") == 3
    assert not done.stderr
    node_from("n", done.stdout)
