"""One seeded history: a cluster lives through a number of actions, comes to rest, and is emptied."""

import random
from dataclasses import dataclass

from driver.kinds import Offer
from driver.settings import ControllerSettings, KubeletPluginSettings, Settings
from kubeletplugin.hardware.simulated import Profile, load_profile
from simulation.cluster import Cluster
from simulation.faults import Misfortune
from simulation.files import MemoryFiles
from simulation.rest import check_end, check_rest
from simulation.weather import CALM, Weather
from tests.system.objects import device_classes
from tests.system.workload import Workload

ACTIONS = (8, 36)
LAST_LINES = 30


def cards(profile: str, count: int) -> Profile:
    """The first cards of a shipped profile."""
    return Profile(load_profile(profile, MemoryFiles()).cards[:count])


LAYOUTS: tuple[dict[str, tuple[str, int]], ...] = (
    {"n1": ("a100x4", 2)},
    {"n1": ("a100x4", 4), "n2": ("t4x2", 2)},
    {"n1": ("t4x2", 2), "n2": ("t4x2", 1), "n3": ("ascend310px4", 1)},
    {"n1": ("ascend310px4", 2), "n2": ("a100x4", 1)},
    {"n1": ("h100x8", 2), "n2": ("ascend910bx8", 2)},
)
BAD_NETWORK = Misfortune(lost_request=0.02, lost_answer=0.03, busy=0.02, conflict=0.03, gone=0.02, lag=0.2)
WEATHERS = (
    CALM,
    Weather(unseen=0.3),
    Weather(overtaken=0.2, unseen=0.2),
    Weather(crash=0.004, overtaken=0.1),
    Weather(network=BAD_NETWORK),
    Weather(network=Misfortune(conflict=0.3), overtaken=0.2),
    Weather(network=Misfortune(lost_answer=0.2), unseen=0.2),
    Weather(network=Misfortune(gone=0.3, lag=0.5)),
    Weather(crash=0.01, overtaken=0.2, unseen=0.4, network=BAD_NETWORK),
)
OFFERS: tuple[tuple[Offer, ...], ...] = (
    ("whole", "share", "partitions"),
    ("whole", "share", "partitions"),
    ("whole", "share"),
    ("whole",),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a seed begins with."""

    layout: dict[str, tuple[str, int]]
    weather: Weather
    controllers: int
    settings: Settings

    @classmethod
    def of(cls, seed: int) -> "Setting":
        """The beginning that belongs to a seed."""
        chance = random.Random(f"beginning of {seed}")
        plugin = KubeletPluginSettings(offer=chance.choice(OFFERS), slots=chance.choice((2, 100)))
        return cls(
            chance.choice(LAYOUTS),
            chance.choice(WEATHERS),
            chance.choice((1, 1, 2)),
            Settings(kubeletplugin=plugin, controller=ControllerSettings(lease_seconds=100)),
        )


class HistoryFailed(AssertionError):
    """Something went wrong that the seed brings back."""


def play(seed: int) -> None:
    """Live through the history of ``seed``.

    Raises:
        HistoryFailed: with the seed, the command that reproduces it, and the last lines of the diary.
    """
    setting = Setting.of(seed)
    cluster = Cluster(
        seed,
        {name: cards(*profile) for name, profile in setting.layout.items()},
        classes=device_classes(),
        controllers=setting.controllers,
        settings=setting.settings,
        weather=CALM,
    )
    try:
        _live(seed, cluster, setting.weather)
    except Exception as error:
        raise HistoryFailed(_report(seed, setting, cluster, error)) from error


def _live(seed: int, cluster: Cluster, weather: Weather) -> None:
    chance = random.Random(f"pace of {seed}")
    cluster.settle()
    published = cluster.invariants.pools()
    workload = Workload(seed, cluster)
    cluster.weather = weather
    for _ in range(chance.randint(0, 6)):
        workload.new_pod()
    for _ in range(chance.randint(*ACTIONS)):
        workload.act()
        cluster.run(chance.choice((0, 3, 10, 40, 200)))
    cluster.weather = CALM
    workload.calm_down()
    cluster.settle()
    check_rest(cluster)
    workload.delete_everything()
    cluster.settle()
    check_end(cluster, published)


def _report(seed: int, setting: Setting, cluster: Cluster, error: Exception) -> str:
    lines = [
        f"history {seed} failed: {type(error).__name__}: {error}",
        f"reproduce: LODE_SEED={seed} .venv/bin/python -m pytest tests/system/test_histories.py",
        f"began with: {setting}",
        f"the last {LAST_LINES} lines of its diary:",
        *cluster.diary.last(LAST_LINES),
    ]
    return "\n".join(lines)
