"""Each kind of misfortune by itself, heavy: the same pods get the same kind of devices, and nothing is left behind."""

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES
from driver.settings import ControllerSettings, Settings
from simulation.cluster import Cluster
from simulation.faults import Misfortune
from simulation.rest import check_end, check_rest
from simulation.standins.informed import phase
from simulation.weather import CALM, Weather
from tests.system.history import cards
from tests.system.objects import ASKS, NAMESPACE, device_classes, pod, template

MISFORTUNES = {
    "answers are lost": Weather(network=Misfortune(lost_answer=0.3)),
    "requests are lost": Weather(network=Misfortune(lost_request=0.3)),
    "the server is busy": Weather(network=Misfortune(busy=0.3)),
    "a storm of conflicts": Weather(network=Misfortune(conflict=0.5)),
    "history is compacted": Weather(network=Misfortune(gone=0.5)),
    "watches lag": Weather(network=Misfortune(lag=0.9)),
    "programs overtake each other": Weather(overtaken=0.5),
    "programs die": Weather(crash=0.03),
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


CASES = [*((name, 1) for name in MISFORTUNES), ("programs die", 2), ("programs overtake each other", 2)]


@pytest.mark.parametrize(("misfortune", "controllers"), CASES)
def test_every_kind_of_request_is_served_whatever_goes_wrong(misfortune: str, controllers: int) -> None:
    cluster = Cluster(
        controllers,
        {"n1": cards("a100x4", 4), "n2": cards("a100x4", 4), "n3": cards("ascend310px4", 3)},
        classes=device_classes(),
        controllers=controllers,
        settings=Settings(controller=ControllerSettings(lease_seconds=100)),
    )
    for name, ask in ASKS.items():
        cluster.user.create(RESOURCE_CLAIM_TEMPLATES, template(name, ask))
    cluster.settle()
    published = cluster.invariants.pools()
    cluster.weather = MISFORTUNES[misfortune]
    for index, wanted in enumerate(WANTED):
        cluster.user.create(PODS, pod(f"p{index}", template_name=wanted))
        cluster.run(40)
    cluster.advance(120)
    cluster.weather = CALM
    cluster.settle()
    check_rest(cluster)
    assert [phase(found) for found in cluster.invariants.pods()] == ["Running"] * len(WANTED)
    cluster.weather = MISFORTUNES[misfortune]
    for index in range(len(WANTED)):
        cluster.user.delete(PODS, f"p{index}", NAMESPACE)
        cluster.run(40)
    cluster.weather = CALM
    cluster.settle()
    check_end(cluster, published)
