"""What another program hands out stays closed until an answer says that it is over, whatever the kubelet does."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.kube.api import Object
from driver.observe import logger
from kubeletplugin.hardware import CardState
from kubeletplugin.hardware.card import Bridged
from kubeletplugin.hardware.simulated import load_profile
from kubeletplugin.kubelet_devices import KubeletAnswer, KubeletDevices, PluginDevice, SilentKubelet
from kubeletplugin.publish.other_drivers import HandedOutBy, OtherDevice, known_card
from kubeletplugin.publish.other_programs import GRACE_SECONDS, OtherPrograms, file_of_signs
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles

GPU, DRA = "nvidia.com/gpu", "gpu.nvidia.com"
POLL = 5.0
CARDS = tuple(replace(card, uuid=f"GPU-{card.index}") for card in load_profile("a100x4", MemoryFiles()).cards)
KNOWN = [known_card(card, CardState()) for card in CARDS]
ALL = {card.name for card in CARDS}
SERVED = [
    known_card(
        replace(card, vendor="bridged", bridged=Bridged(GPU, card.uuid, card.name, "n", (card.uuid,))), CardState()
    )
    for card in CARDS
]
"""The same cards, served by the device plugin's host of this program."""


@dataclass
class Node:
    """A node with a kubelet, and a device plugin and a DRA driver that may hand out its cards; and what we know of it.

    Attributes:
        offered: indexes of the cards of the device plugin.
        works: whether its devices are healthy; the kubelet names no others.
        used: indexes of the cards of its pods.
        published: indexes of the cards of the DRA driver.
        claimed: whether pods have devices of the DRA driver.
    """

    offered: Collection[int] = ()
    works: bool = True
    used: Collection[int] = ()
    published: Collection[int] = ()
    claimed: bool = False
    bridged: bool = False

    def __post_init__(self) -> None:
        self.clock, self.files = VirtualClock(), MemoryFiles()
        self.clock.advance(1000)
        self.is_up, self.hangs, self.has_socket = True, False, True
        self.run, self.started = 1, self.clock.monotonic()
        self.registered = self.knows_pods = self.is_published = True
        self.left_at: float | None = None
        """When the kubelet lost the device plugin."""
        self.count = len(self.offered)
        """As the Node has it."""
        self.programs = self.begin()

    def begin(self) -> OtherPrograms:
        return OtherPrograms(self.clock, self.answer, file_of_signs(self.files, "/plugin", logger("test")))

    def restart_lode(self) -> None:
        self.programs = self.begin()

    def answer(self) -> KubeletAnswer:
        if not self.is_up or self.hangs:
            return SilentKubelet(self.has_socket)
        return KubeletDevices(
            _devices(self.offered if self.registered and self.works else ()),
            _devices(self.used if self.knows_pods else ()),
            frozenset([DRA] if self.claimed and self.knows_pods else ()),
            str(self.run),
        )

    def stop_kubelet(self) -> None:
        self.is_up = False

    def start_kubelet(self) -> None:
        """Another run: it knows neither device plugins nor pods."""
        self.is_up, self.hangs = True, False
        self.run, self.started = self.run + 1, self.clock.monotonic()
        self.registered = self.knows_pods = False
        self.left_at = None

    def start_hanging(self) -> None:
        self.start_kubelet()
        self.hang()

    def hang(self) -> None:
        self.hangs = self.is_up

    def answer_again(self) -> None:
        self.hangs = False

    def lose_socket(self) -> None:
        self.has_socket = False

    def write(self) -> None:
        """The kubelet counts in the Node what has registered, and deletes slices of drivers that have not."""
        if not self.is_up:
            return
        self.is_published = self.knows_pods
        waits = self.left_at is not None and self.clock.monotonic() - self.left_at <= GRACE_SECONDS
        self.count = len(self.offered) if self.registered or waits else 0

    def settle(self) -> None:
        """What lives registers with the kubelet that runs, which has read its pods."""
        if self.is_up:
            self.knows_pods = self.is_published = True
            self.registered = self.left_at is None

    def end_device_plugin(self) -> None:
        """For good."""
        if self.left_at is None:
            self.registered, self.left_at = False, self.clock.monotonic()

    def pass_time(self, seconds: float = POLL) -> None:
        """A device plugin that lives needs less than the kubelet's grace to register again."""
        self.clock.advance(seconds)
        if self.is_up and self.clock.monotonic() - self.started > GRACE_SECONDS - 100:
            self.settle()

    def closed(self, programs: OtherPrograms | None = None) -> set[str]:
        capacity: Object = {"status": {"capacity": {GPU: str(self.count)}}}
        texts = (CARDS[index].uuid for index in self.published if self.is_published)
        slices = [OtherDevice(DRA, frozenset([text])) for text in texts]
        return set((programs or self.programs).find(SERVED if self.bridged else KNOWN, capacity, slices))

    def closed_after(self, seconds: float) -> set[str]:
        """The cards that are closed at every look until then."""
        found, end = self.closed(), self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.pass_time()
            found &= self.closed()
        return found

    def awaited(self) -> set[str]:
        """The cards that are closed when all has been as it is for long."""
        every = {*(self.offered if self.registered else ()), *self.used, *self.published}
        return (
            ALL
            if self.claimed or (self.registered and self.offered and not self.works)
            else {CARDS[index].name for index in every}
        )


def _devices(indexes: Collection[int]) -> frozenset[PluginDevice]:
    return frozenset(PluginDevice(GPU, CARDS[index].uuid) for index in indexes)


def names(*indexes: int) -> set[str]:
    return {CARDS[index].name for index in indexes}


NODES: dict[str, Callable[[], Node]] = {
    "a device plugin": lambda: Node(offered=range(4), used=[0, 1]),
    "a device plugin with devices that do not work": lambda: Node(offered=range(4), works=False),
    "a device plugin of some cards": lambda: Node(offered=[2, 3], used=[2]),
    "pods of a device plugin that has gone": lambda: Node(used=[0, 1]),
    "a DRA driver": lambda: Node(published=[1, 2]),
    "pods of a DRA driver that has gone": lambda: Node(claimed=True),
    "a device plugin that we serve, too": lambda: Node(offered=range(4), used=[0], bridged=True),
    "pods of one that we serve now": lambda: Node(used=[3], bridged=True),
}


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("socket", [True, False], ids=["with its socket", "without a socket"])
@pytest.mark.parametrize("seconds", [POLL, 60.0, 1000.0], ids=["once", "for a while", "for ever"])
def test_a_kubelet_that_does_not_answer_takes_nothing_away_and_adds_nothing(
    kind: str, socket: bool, seconds: float
) -> None:
    node = NODES[kind]()
    before = node.closed()
    assert before == node.awaited()
    node.has_socket = socket
    node.stop_kubelet()
    assert node.closed_after(seconds) == before == node.closed()


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("how", ["seen to be away", "between two looks", "hangs at first"])
def test_a_kubelet_that_has_just_started_takes_nothing_away(kind: str, how: str) -> None:
    node = NODES[kind]()
    before = node.closed()
    node.stop_kubelet()
    if how == "seen to be away":
        assert node.closed() == before
    node.start_kubelet()
    if how == "hangs at first":
        node.hang()
        node.write()
        assert node.closed() == before
        node.answer_again()
    assert before <= node.closed(), "the Node and the slices are still those of before"
    node.write()
    assert node.closed_after(60) == before == node.closed()
    node.settle()
    node.write()
    assert node.closed_after(2 * GRACE_SECONDS) == before == node.closed()


@pytest.mark.parametrize("kind", NODES)
def test_what_did_not_come_back_after_the_start_of_the_kubelet_is_over_when_its_grace_is(kind: str) -> None:
    node = NODES[kind]()
    before = node.closed()
    node.offered = node.used = node.published = ()
    node.claimed = False
    node.start_kubelet()
    node.write()
    assert node.closed_after(GRACE_SECONDS - POLL) == before
    node.pass_time(3 * POLL)
    assert node.closed() == set()


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("reboots", [True, False])
def test_they_stay_closed_when_lode_starts_again_while_the_kubelet_is_silent_or_new(kind: str, reboots: bool) -> None:
    node = NODES[kind]()
    before = node.closed()
    node.stop_kubelet()
    node.restart_lode()
    assert node.closed() == ALL, "what else may be handed out is not known"
    node.has_socket = False
    assert node.closed() == ALL
    if reboots:
        node.start_kubelet()
        node.write()
        node.restart_lode()
    else:
        node.is_up = True
    assert before <= node.closed_after(60)
    node.settle()
    node.write()
    node.pass_time(2 * GRACE_SECONDS)
    assert node.closed() == before


def test_a_node_without_others_is_closed_until_its_kubelet_has_answered_once() -> None:
    node = Node()
    node.hang()
    assert node.closed() == ALL
    node.answer_again()
    assert node.closed() == set()
    node.hang()
    assert node.closed() == set(), "an answer stays known"
    node.restart_lode()
    by = {each for programs in node.programs.find(KNOWN, {}, ()).values() for each in programs}
    assert {each.kind for each in by} == {HandedOutBy.UNKNOWN}


def test_where_no_kubelet_was_ever_found_the_node_and_the_slices_say_everything() -> None:
    node = Node()
    node.has_socket = node.is_up = False
    assert node.closed() == set()
    node.count = 4
    assert node.closed() == ALL
    node.count = 0
    assert node.closed() == set()


def test_a_device_plugin_that_ends_is_over_when_the_kubelet_has_forgotten_it_and_pods_at_once() -> None:
    node = Node(offered=[0, 1], used=[0])
    assert node.closed() == names(0, 1)
    node.end_device_plugin()
    node.write()
    assert node.closed_after(GRACE_SECONDS - POLL) == ALL, "its devices are not named, so they may be any"
    node.pass_time(2 * POLL)
    node.write()
    assert node.closed() == names(0)
    node.used = ()
    assert node.closed() == set()
    assert node.files.read("/plugin/other-programs.json") is None


def test_a_damaged_file_of_before_closes_nothing_for_ever() -> None:
    node = Node()
    node.files.write("/plugin/other-programs.json", b'{"bootId": "", "value": [{"sign": 1}]}')
    node.restart_lode()
    assert node.closed() == set()


INCIDENTS: dict[str, Callable[[Node], None]] = {
    "stop": Node.stop_kubelet,
    "start": Node.start_kubelet,
    "start and hang": Node.start_hanging,
    "hang": Node.hang,
    "answer": Node.answer_again,
    "write": Node.write,
    "settle": Node.settle,
    "lode": Node.restart_lode,
    "moment": lambda node: node.pass_time(),
    "minute": lambda node: node.pass_time(60),
    "no socket": Node.lose_socket,
}


@given(st.sampled_from(sorted(NODES)), st.lists(st.sampled_from(sorted(INCIDENTS)), max_size=30), st.booleans())
def test_no_card_of_another_program_is_open_at_any_look_and_in_the_end_nothing_else_is_closed(
    kind: str, incidents: list[str], ends: bool
) -> None:
    node = NODES[kind]()
    held = node.closed()
    for incident in incidents:
        INCIDENTS[incident](node)
        assert held <= node.closed(), f"after {incident}"
    node.is_up, node.hangs, node.has_socket = True, False, True
    if ends:
        node.end_device_plugin()
    node.pass_time(2 * GRACE_SECONDS)
    node.settle()
    node.write()
    node.closed()
    node.pass_time(GRACE_SECONDS + POLL)
    node.write()
    assert node.closed() == node.awaited() == node.closed(OtherPrograms(node.clock, node.answer))


def test_a_kubelet_whose_socket_comes_later_has_not_been_heard_before_it_answers() -> None:
    answers: list[KubeletAnswer] = [SilentKubelet(has_socket=False), SilentKubelet(), KubeletDevices(run="1")]
    programs = OtherPrograms(VirtualClock(), lambda: answers.pop(0))
    assert programs.find(KNOWN, {}, ()) == {}, "no kubelet was ever found"
    assert programs.find(KNOWN, {}, ()).keys() == ALL
    assert programs.find(KNOWN, {}, ()) == {}
