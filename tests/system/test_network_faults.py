"""Each kind of fault by itself, at a high rate: every pod gets its devices, and nothing is left in the end."""

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES
from driver.kube.objects import pod_phase
from driver.settings import ControllerSettings, Settings
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import NO_FAULTS, FaultProfile, NetworkFaults
from tests.simulation.settled_checks import check_empty, check_settled
from tests.system.history import cards
from tests.system.objects import NAMESPACE, REQUESTS, device_classes, pod, template

FAULT_PROFILES = {
    "responses are lost": FaultProfile(network=NetworkFaults(lost_response=0.3)),
    "requests are lost": FaultProfile(network=NetworkFaults(lost_request=0.3)),
    "writes are slow": FaultProfile(network=NetworkFaults(slow=0.8)),
    "writes hang": FaultProfile(network=NetworkFaults(hang=0.3)),
    "the server is busy": FaultProfile(network=NetworkFaults(busy=0.3)),
    "many conflicts": FaultProfile(network=NetworkFaults(conflict=0.5)),
    "history is compacted": FaultProfile(network=NetworkFaults(gone=0.5)),
    "watches lag": FaultProfile(network=NetworkFaults(lag=0.9)),
    "programs are interleaved": FaultProfile(interleave=0.5),
    "programs crash": FaultProfile(crash=0.03),
}
WANTED = [
    "gpu-1",
    "gpu-2",
    "share-small",
    "share-small",
    "share-large",
    "mig-small",
    "mig-large",
    "npu-1",
    "vnpu-small",
]


CASES = [
    *((name, 1) for name in FAULT_PROFILES),
    ("programs crash", 2),
    ("programs are interleaved", 2),
    ("writes hang", 2),
]


@pytest.mark.parametrize(("profile", "controllers"), CASES)
def test_every_kind_of_request_is_satisfied_despite_faults(profile: str, controllers: int) -> None:
    cluster = SimulatedCluster(
        controllers,
        {"n1": cards("a100x4", 4), "n2": cards("a100x4", 4), "n3": cards("ascend310px4", 3)},
        classes=device_classes(),
        controllers=controllers,
        settings=Settings(controller=ControllerSettings(lease_seconds=100)),
    )
    for name, device_request in REQUESTS.items():
        cluster.user.create(RESOURCE_CLAIM_TEMPLATES, template(name, device_request))
    cluster.settle()
    published = cluster.invariants.pools()
    cluster.faults = FAULT_PROFILES[profile]
    for index, wanted in enumerate(WANTED):
        cluster.user.create(PODS, pod(f"p{index}", template_name=wanted))
        cluster.run(40)
    cluster.advance(120)
    cluster.faults = NO_FAULTS
    cluster.settle()
    check_settled(cluster)
    assert [pod_phase(current) for current in cluster.invariants.pods()] == ["Running"] * len(WANTED)
    cluster.faults = FAULT_PROFILES[profile]
    for index in range(len(WANTED)):
        cluster.user.delete(PODS, f"p{index}", NAMESPACE)
        cluster.run(40)
    cluster.faults = NO_FAULTS
    cluster.settle()
    check_empty(cluster, published)
