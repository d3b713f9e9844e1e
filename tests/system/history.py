"""One seeded history: users and operators act on a cluster, it settles, and everything is deleted."""

import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from driver.kinds import Offer
from driver.kube.api import JOB_SETS, PODS, RESOURCE_QUOTAS
from driver.kube.objects import pod_phase
from driver.settings import AutoscalingSettings, ControllerSettings, HoldSettings, KubeletPluginSettings, Settings
from kubeletplugin.hardware.simulated import Profile, load_profile
from simulation.invariants import Violation
from tests.simulation.closed_nodes import PATTERNS
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import NO_FAULTS, FaultProfile, NetworkFaults
from tests.simulation.files import MemoryFiles
from tests.simulation.gang_checks import check_gangs
from tests.simulation.jobset_controller import JobSetController
from tests.simulation.settled_checks import (
    check_empty,
    check_knowledge,
    check_no_writes_without_news,
    check_nobody_waits_behind_words,
    check_settled,
)
from tests.simulation.template_checks import check_unused_templates
from tests.system.access_incidents import AccessIncidents, kinds_change
from tests.system.answer_incidents import AnswerIncidents
from tests.system.card_incidents import RECOVERY_SECONDS, check_lost_cards, mend_cards, number_cards_as_at_first
from tests.system.class_incidents import ClassIncidents
from tests.system.condition_incidents import ConditionIncidents, conditions_close
from tests.system.disk_incidents import DiskIncidents
from tests.system.gangs import RandomGangs, fabrics
from tests.system.hostile_incidents import OPTIONAL, HostileIncidents, happen
from tests.system.job_sets import RandomJobSets
from tests.system.joining_incidents import JoiningIncidents
from tests.system.misreading_incidents import MisreadingIncidents
from tests.system.namesake_incidents import NamesakeIncidents
from tests.system.namespace_incidents import NamespaceIncidents
from tests.system.nvidia_names import NVIDIA_CLASSES, NVIDIA_REQUESTS, has_nvidia_names
from tests.system.objects import REQUESTS, device_classes
from tests.system.plugin_incidents import BRIDGED_REQUESTS, PluginFailure, PluginIncidents, device_plugins
from tests.system.plugin_incidents import SETTINGS as PLUGIN_SETTINGS
from tests.system.protection_incidents import ProtectionIncidents
from tests.system.quota_incidents import QuotaIncidents
from tests.system.restore_incidents import RestoreIncidents
from tests.system.sub_groups import KINDS, TIERS, RandomSubGroups
from tests.system.template_incidents import SETTINGS, TemplateIncidents
from tests.system.thread_incidents import ThreadIncidents
from tests.system.workload import RandomWorkload

ACTIONS = (8, 36)
OF_GANGS = (JOB_SETS, *KINDS)
"""Kinds that the API serves besides in histories with gangs."""
QUESTIONED = 0.2
"""How often controllers are questioned after an action."""
QUESTIONS = 4
_LAST_LINES = 60
NODES_ASKED_FOR = 0.2
"""In how many histories pods that wait ask autoscalers for a node."""
OLDER_CONTROLLERS = 0.15
"""In how many histories controllers do not say which cards claims get."""
WALL_CLOCK_SET = 0.1
"""How often the wall clock of a program is set after an action."""
WALL_CLOCKS = (-86_400.0, -3_600.0, -2.0, 0.0, 30.0, 3_600.0)
"""Seconds by which it is ahead of the API server's then."""


@cache
def cards(profile: str, count: int) -> Profile:
    """The first cards of a shipped profile."""
    return Profile(load_profile(profile, MemoryFiles()).cards[:count])


LAYOUTS: tuple[dict[str, tuple[str, int]], ...] = (
    {"n1": ("a100x4", 2)},
    {"n1": ("a100x4", 4), "n2": ("t4x2", 2)},
    {"n1": ("t4x2", 2), "n2": ("t4x2", 1), "n3": ("ascend310px4", 1)},
    {"n1": ("ascend310px4", 2), "n2": ("a100x4", 1)},
    {"n1": ("h100x8", 2), "n2": ("ascend910bx8", 2)},
    {"n1": ("a100x4", 2), "n2": ("a100x4", 2)},
    {"n1": ("t4x2", 2), "n2": ("t4x2", 2), "n3": ("t4x2", 2)},
)
BAD_NETWORK = NetworkFaults(lost_request=0.02, lost_response=0.03, busy=0.02, conflict=0.03, gone=0.02, lag=0.2)
FAULT_PROFILES = (
    NO_FAULTS,
    FaultProfile(skip_watch=0.3),
    FaultProfile(interleave=0.2, skip_watch=0.2),
    FaultProfile(crash=0.004, interleave=0.1),
    FaultProfile(network=BAD_NETWORK),
    FaultProfile(network=NetworkFaults(conflict=0.3), interleave=0.2),
    FaultProfile(network=NetworkFaults(lost_response=0.2), skip_watch=0.2),
    FaultProfile(network=NetworkFaults(gone=0.3, lag=0.5)),
    FaultProfile(network=NetworkFaults(slow=0.5, hang=0.1), interleave=0.1),
    FaultProfile(crash=0.01, skip_watch=0.4, network=NetworkFaults(slow=0.3, hang=0.2, conflict=0.05)),
    FaultProfile(latency=0.02, interleave=0.1),
    FaultProfile(late_renewal=0.4, skip_watch=0.2),
    FaultProfile(late_renewal=0.4, interleave=0.1, network=NetworkFaults(slow=0.2)),
    FaultProfile(network=NetworkFaults(silence=0.9, slow=0.1)),
    FaultProfile(latency=0.01, crash=0.003, skip_watch=0.3, network=NetworkFaults(conflict=0.05, lag=0.2)),
    FaultProfile(crash=0.01, interleave=0.2, skip_watch=0.4, network=BAD_NETWORK),
    FaultProfile(network=NetworkFaults(overtaken=0.15), skip_watch=0.2),
    FaultProfile(network=NetworkFaults(overtaken=0.15, lag=0.3), interleave=0.1),
)
OFFERS: tuple[tuple[Offer, ...], ...] = (
    ("whole", "share", "partitions"),
    ("whole", "share", "partitions"),
    ("whole", "share"),
    ("whole",),
)


@dataclass(frozen=True, slots=True)
class HistoryStart:
    """The start of a history."""

    layout: dict[str, tuple[str, int]]
    faults: FaultProfile
    controllers: int
    settings: Settings
    deadlines: bool
    """Whether most pods have a deadline, and nodes are held back for gangs soon."""

    @classmethod
    def of(cls, seed: int, *, with_gangs: bool = False) -> "HistoryStart":
        """The start of the history of ``seed``."""
        chance = random.Random(f"beginning of {seed}")
        plugin = KubeletPluginSettings(
            offer=chance.choice(OFFERS),
            slots=chance.choice((2, 100)),
            recovery_seconds=RECOVERY_SECONDS,
            deviceplugin=PLUGIN_SETTINGS,
        )
        layout, faults = chance.choice(LAYOUTS), chance.choice(FAULT_PROFILES)
        deadlines = with_gangs and random.Random(f"deadlines of {seed}").random() < 0.5
        return cls(
            layout,
            faults,
            2 if faults.late_renewal else chance.choice((1, 1, 2)),
            Settings(
                nvidia_dra_names=has_nvidia_names(seed),
                kubeletplugin=plugin,
                controller=ControllerSettings(
                    lease_seconds=100,
                    hold=_holds_soon(seed) if deadlines else HoldSettings(),
                    autoscaling=AutoscalingSettings(enabled=asks_for_nodes(seed)),
                    closing_node_conditions=[*PATTERNS] if conditions_close(seed) else [],
                    volcano_tiers=TIERS if with_gangs else {},
                    templates=SETTINGS,
                ),
            ),
            deadlines,
        )


def asks_for_nodes(seed: int) -> bool:
    """Whether pods that wait ask autoscalers for a node; in the others, nothing may be written about that."""
    return random.Random(f"an autoscaler in {seed}").random() < NODES_ASKED_FOR


def controllers_are_older(seed: int) -> bool:
    """Whether controllers do not say which cards claims get; plugins say it then, as where kube-scheduler allocates."""
    return random.Random(f"older controllers in {seed}").random() < OLDER_CONTROLLERS


def _holds_soon(seed: int) -> HoldSettings:
    """Nodes are held back soon, for a short or for a long time."""
    chance = random.Random(f"holds of {seed}")
    return HoldSettings(
        after_seconds=10, for_seconds=chance.choice((20, 60, 1800)), pause_seconds=30, share=chance.choice((0.5, 1))
    )


class HistoryFailed(AssertionError):
    """A history failed; its seed reproduces the failure."""


@contextmanager
def reproducible(seed: int, cluster: SimulatedCluster, test: str, variable: str, *more: str) -> Iterator[None]:
    """Raise any error of the history of ``seed`` as ``HistoryFailed``.

    Args:
        test: plays the history alone, if the environment variable ``variable`` has its seed.
        more: further lines of the report.
    """
    try:
        yield
    except Exception as error:
        lines = [
            f"history {seed} failed: {type(error).__name__}: {error}",
            f"reproduce: {variable}={seed} .venv/bin/python -m pytest tests/system/test_{test}.py",
            *more,
            f"the last {_LAST_LINES} lines of the event log:",
            *cluster.log.last(_LAST_LINES),
        ]
        raise HistoryFailed("\n".join(lines)) from error


def play(seed: int, *, with_gangs: bool = False) -> None:
    """Play the history of ``seed``; with gangs, it is another one.

    Raises:
        HistoryFailed: with the seed, the command that reproduces it, and the last lines of the event log.
    """
    start = HistoryStart.of(seed, with_gangs=with_gangs)
    cluster = SimulatedCluster(
        seed,
        {name: cards(*profile) for name, profile in start.layout.items()},
        classes=[*device_classes(), *(NVIDIA_CLASSES if has_nvidia_names(seed) else ())],
        controllers=start.controllers,
        settings=start.settings,
        labels=fabrics(list(start.layout)) if with_gangs else None,
        faults=NO_FAULTS,
        custom=OPTIONAL if happen(seed) or kinds_change(seed) else OF_GANGS if with_gangs else (),
        components={"jobset-controller": JobSetController} if with_gangs else None,
        device_plugins=device_plugins(seed),
    )
    # What a history leaves behind is small, and looking for it again and again takes a sixth of its time.
    gc.disable()
    test, variable = ("gang_histories", "LODE_GANG_SEED") if with_gangs else ("histories", "LODE_SEED")
    try:
        with reproducible(seed, cluster, test, variable, f"start: {start}"):
            _play(seed, cluster, start, with_gangs)
    finally:
        gc.enable()


def _play(seed: int, cluster: SimulatedCluster, start: HistoryStart, with_gangs: bool) -> None:
    chance, clocks = random.Random(f"pace of {seed}"), random.Random(f"clocks of {seed}")
    ours = [name for name in cluster.slots if name.startswith(("controller-", "plugin-"))]
    threads = ThreadIncidents(seed, cluster)
    cluster.older_controllers = controllers_are_older(seed)
    cluster.settle()
    published = cluster.invariants.pools()
    profiles = [cards(*profile) for layout in LAYOUTS for profile in layout.values()]
    gangs = RandomGangs(seed, cluster, deadlines=start.deadlines)
    parts, sub_groups = RandomJobSets(seed, cluster), RandomSubGroups(seed, cluster)
    more = (*gangs.actions, *parts.actions, *sub_groups.actions) if with_gangs else ()
    plugins = PluginIncidents(seed, cluster)
    besides = {**(BRIDGED_REQUESTS if plugins.happen else {}), **(NVIDIA_REQUESTS if has_nvidia_names(seed) else {})}
    workload = RandomWorkload(seed, cluster, profiles, more, deadlines=start.deadlines, besides=besides)
    disks, hostile = DiskIncidents(seed, cluster), HostileIncidents(seed, cluster)
    access, restores = AccessIncidents(seed, cluster), RestoreIncidents(seed, cluster)
    namesakes, quotas = NamesakeIncidents(seed, cluster, start.faults), QuotaIncidents(seed, cluster, restores)
    conditions, templates = ConditionIncidents(seed, cluster), TemplateIncidents(seed, cluster)
    protections = ProtectionIncidents(seed, cluster, happen=asks_for_nodes(seed))
    classes, answers = ClassIncidents(seed, cluster), AnswerIncidents(seed, cluster)
    joining, namespaces = JoiningIncidents(seed, cluster), NamespaceIncidents(seed, cluster, 1396, REQUESTS)
    misreadings = MisreadingIncidents(seed, cluster)
    cluster.faults = faults = start.faults
    for _ in range(chance.randint(0, 6)):
        workload.new_pod()
    actions = chance.randint(*ACTIONS)
    rest_at = chance.choice((None, None, actions // 2))
    if conditions_close(seed):
        # At the end, all nodes are open again.
        rest_at = actions // 2
    for number in range(actions):
        if number == rest_at:
            disks.undo()
            access.undo()
            plugins.undo()
            answers.undo()
            _rest(cluster, faults)
        workload.act()
        disks.act()
        hostile.act()
        access.act()
        restores.act()
        namesakes.act()
        quotas.act()
        conditions.act()
        templates.act()
        protections.act()
        classes.act()
        threads.act()
        plugins.act()
        answers.act()
        joining.act()
        namespaces.act()
        misreadings.act()
        if clocks.random() < WALL_CLOCK_SET:
            cluster.wall_clocks[clocks.choice(ours)] = clocks.choice(WALL_CLOCKS)
        cluster.run(chance.choice((0, 3, 10, 40, 200)))
        if chance.random() < QUESTIONED:
            check_knowledge(cluster, chance.sample(sorted(REQUESTS), QUESTIONS))
    access.undo()
    answers.undo()
    if faults.network.silence:
        check_nobody_waits_behind_words(cluster)
    cluster.faults = NO_FAULTS
    quotas.undo()
    conditions.undo()
    classes.undo()
    joining.undo()
    gangs.restore_fabrics()
    workload.operators.undo()
    disks.undo()
    plugins.undo()
    cluster.settle()
    check_settled(cluster)
    check_gangs(cluster, may_have_moved=gangs.fabrics_were_lost)
    check_no_writes_without_news(cluster)
    check_lost_cards(cluster)
    check_unused_templates(cluster)
    failing = PluginFailure(seed, cluster)
    if plugins.happen:
        failing.begin()
    workload.delete_everything(*(OF_GANGS if with_gangs else ()))
    cluster.settle()
    if plugins.happen:
        _play_beside(cluster, workload, failing)
    number_cards_as_at_first(cluster)
    cluster.settle()
    check_empty(cluster, published)
    check_unused_templates(cluster)


def _play_beside(cluster: SimulatedCluster, workload: RandomWorkload, failing: PluginFailure) -> None:
    """While device plugins fail, everything has ended, and whoever wants other devices gets them."""
    check_settled(cluster)
    for quota in cluster.user.list(RESOURCE_QUOTAS).items:
        cluster.user.delete(RESOURCE_QUOTAS, quota["metadata"]["name"], quota["metadata"]["namespace"])
    pods = [*failing.pods()]
    for each in pods:
        cluster.user.create(PODS, each)
    cluster.settle()
    check_settled(cluster)
    phases = {pod["metadata"]["name"]: pod_phase(pod) for pod in cluster.invariants.pods()}
    if phases != dict.fromkeys((pod["metadata"]["name"] for pod in pods), "Running"):
        raise Violation(f"while device plugins fail, not exactly the pods of others run: {phases}")
    workload.delete_everything()
    cluster.settle()
    failing.end()


def _rest(cluster: SimulatedCluster, faults: FaultProfile) -> None:
    """The cluster settles while nodes are cordoned, devices tainted, classes changed and cards broken; all answer."""
    cluster.faults = NO_FAULTS
    mend_cards(cluster)
    cluster.settle()
    check_settled(cluster)
    cluster.faults = faults
