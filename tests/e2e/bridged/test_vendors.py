"""Containers get from a claim what the same device plugin gives them under the kubelet."""

import pytest

from tests.e2e.bridged import vendor_plugin
from tests.e2e.bridged.offered import FREE, cards, offered, served
from tests.e2e.client import Client, eventually
from tests.e2e.container import METADATA
from tests.e2e.hardware.conftest import learn_slices
from tests.e2e.pods import SLEEP, pod
from tests.e2e.watcher import Watcher

WAYS = ("amd", "nvidia", "file")
_EVERY_CONTAINER = (
    "/|/dev|/dev/(termination-log|shm|mqueue|pts)|/(proc|sys)(/.*)?|/etc/(hosts|hostname|resolv.conf)"
    "|/var/run/secrets.*"
)
_SCRIPT = f"""
for node in $(find /dev -type c -o -type b | sort); do
  stat -c '%n %F %t:%T %u:%g' $node
  (: <$node) 2>/dev/null && echo "$node can be read"
  (: >$node) 2>/dev/null && echo "$node can be written"
done
echo @@
env | grep -vE '^(HOSTNAME|KUBERNETES_|SHLVL|PWD|_|LODE_)' | sort
echo @@
awk '{{print $4, $5, $6}}' /proc/self/mountinfo | grep -vE ' ({_EVERY_CONTAINER}|{METADATA}.*) ' | sort
"""


def seen(client: Client, namespace: str, name: str, container: str = "main") -> list[list[str]]:
    """The device files with what can be done to them, the variables and the mounts in a container."""
    printed = client.exec(namespace, name, container, "sh", "-c", _SCRIPT)
    return [part.strip().splitlines() for part in printed.split("@@\n")]


@pytest.mark.usefixtures("bridging")
@pytest.mark.parametrize("way", WAYS)
def test_containers_get_what_the_kubelet_would_give_them(
    client: Client, watcher: Watcher, namespace: str, way: str
) -> None:
    kubelets, ours, *_ = client.cluster.workers
    client.create(namespace, vendor_plugin.pod(way, kubelets, vendor_plugin.FOLDER))
    served(client, namespace, watcher, way, ours)
    theirs = pod("theirs", nodeSelector={"kubernetes.io/hostname": kubelets})
    theirs["spec"]["containers"][0]["resources"]["limits"] = {vendor_plugin.resource(way): "2"}
    client.create(namespace, theirs, cards(way, 2), pod("ours", "cards"))
    client.wait_until_ready(namespace)
    devices, variables, mounts = seen(client, namespace, "ours")
    assert [devices, variables, mounts] == seen(client, namespace, "theirs")
    plain = pod("plain")
    client.create(namespace, plain)
    client.wait_until_ready(namespace)
    assert [devices, variables, mounts] != seen(client, namespace, "plain")


@pytest.mark.usefixtures("bridging")
def test_two_containers_share_a_claim_and_a_card_that_fails_is_tainted(
    client: Client, watcher: Watcher, namespace: str
) -> None:
    _, ours, *_ = client.cluster.workers
    served(client, namespace, watcher, "nvidia", ours)
    both = pod("both", "cards")
    (first,) = both["spec"]["containers"]
    both["spec"]["containers"] = [first, {**first, "name": "side", "command": SLEEP}]
    client.create(namespace, cards("nvidia", 1), both)
    client.wait_until_ready(namespace)
    assert seen(client, namespace, "both") == seen(client, namespace, "both", "side")
    ill = vendor_plugin.IDS[1]
    client.exec(namespace, f"plugin-nvidia-{ours}", "main", "sh", "-c", f"echo {ill} > {vendor_plugin.ILL}")
    eventually("the card is tainted", lambda: offered(client, "nvidia", ours)[ill] == ["lode.dev/unhealthy"])


@pytest.mark.release  # the kubelet counts a resource for five minutes after its device plugin is gone
@pytest.mark.usefixtures("bridging")
def test_a_device_plugin_is_moved_while_its_pod_runs(client: Client, watcher: Watcher, namespace: str) -> None:
    """What the kubelet has given stays its pod's, and the rest is had by claims."""
    _, node, *_ = client.cluster.workers
    client.create(namespace, vendor_plugin.pod("amd", node, vendor_plugin.FOLDER))
    theirs = pod("theirs")
    theirs["spec"]["containers"][0]["resources"]["limits"] = {vendor_plugin.resource("amd"): "1"}
    client.create(namespace, theirs)
    client.wait_until_ready(namespace, "theirs")
    client.delete(namespace, "pods", f"plugin-amd-{node}")
    client.create(namespace, vendor_plugin.pod("amd", node, vendor_plugin.OURS))
    taints = ["lode.dev/other-driver"]
    eventually("one card is free", lambda: sorted(offered(client, "amd", node).values()) == [[], taints], 400)
    learn_slices(client, watcher)
    client.create(namespace, cards("amd", 1), pod("ours", "cards"))
    client.wait_until_ready(namespace)
    before = seen(client, namespace, "theirs")
    assert seen(client, namespace, "ours") != before
    client.delete(namespace, "pods", "theirs")
    eventually("the other card is free", lambda: offered(client, "amd", node) == FREE)
