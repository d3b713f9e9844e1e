"""A device plugin of the vendor on the node of a history, and a kubelet that is silent, restarts, and forgets."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence

from driver.clock import Clock
from driver.kube.api import Object
from kubeletplugin.inventory import Inventory
from kubeletplugin.kubelet_devices import KubeletAnswer, KubeletDevices, PluginDevice, SilentKubelet

REGISTERS_SECONDS = (0.0, 20.0, 200.0)
"""After how long a kubelet that has restarted knows its device plugin and its pods again; at the next event, too."""
RUNTIME = {"containerRuntimeVersion": "containerd://2.1.4"}
"""What the Node says of itself."""
EVENTS = 0.3
"""How often something changes after an event of the history."""


class OtherHands:
    """What pods have from a device plugin, and what the kubelet says of it.

    What must hold: a card that the kubelet has named stays closed to claims for as long as it is in other hands,
    whatever the kubelet says meanwhile; and every card is closed until the kubelet has answered once.

    Args:
        resource: that of the device plugin.
        devices: what the device plugin calls its device of each card, by the card's uuid.
    """

    def __init__(self, seed: int, clock: Clock, resource: str, devices: Mapping[str, str]):
        self._random = random.Random(f"other hands of {seed}")
        self._clock = clock
        self._resource = resource
        self._devices = devices
        self._cards = list(devices)
        self._served: frozenset[str] = frozenset()
        self._used: frozenset[str] = frozenset()
        self._run = 1
        self._knows_at = self._said_at = 0.0
        self._named: set[str] = set()
        """What the kubelet has named, and is in other hands since."""
        self._heard = False
        """Whether the present run of the plugin has had an answer."""
        self._silent, self._has_socket = False, True

    def act(self) -> str:
        """Perhaps change something; returns what, in words."""
        if self._random.random() > EVENTS:
            return ""
        acts: Sequence[Callable[[], str]] = (
            self._serve,
            self._use,
            self._use,
            self._fall_silent,
            self._fall_silent,
            self._restart,
            self._register,
        )
        said = self._random.choice(acts)()
        self._named &= self._served | self._used
        return said

    def end(self) -> None:
        """The kubelet answers from now on, and knows everything."""
        self._silent, self._has_socket = False, True
        self._knows_at = self._said_at = self._clock.monotonic()

    def started(self) -> None:
        """The plugin of this driver has started anew."""
        self._heard = False

    def node(self, node: Object) -> Object:
        """The Node with the kubelet's count, and without what it says of its runtime while it has not said it again."""
        count = len(self._served) if self._knows() else 0
        status = {**node.get("status", {}), "capacity": {self._resource: str(count)}}
        if self._clock.monotonic() < self._said_at:
            del status["nodeInfo"]
        return {**node, "status": status}

    def answer(self) -> KubeletAnswer:
        """What the kubelet answers."""
        if self._silent:
            return SilentKubelet(has_socket=self._has_socket)
        self._heard = True
        run = f"run {self._run}"
        if not self._knows():
            return KubeletDevices(run=run)
        self._named = set(self._served | self._used)
        return KubeletDevices(self._named_as(self._served), self._named_as(self._used), run=run)

    def open(self, inventory: Inventory, taint: str, *, settled: bool = False) -> Sequence[str]:
        """The devices that are closed or open to claims, and should not be.

        Args:
            settled: whether the kubelet has answered for long.
        """
        unheard = not self._heard and (self._has_socket or not self._silent)
        closed = set(self._cards) if unheard else self._named
        wrong = []
        for each in inventory.offered:
            has = any(it.key == taint for it in each.device.taints)
            if each.card.uuid in closed and not has:
                wrong.append(f"{each.device.name} is open")
            elif settled and has and each.card.uuid not in self._served | self._used:
                wrong.append(f"{each.device.name} is closed")
        return wrong

    def _knows(self) -> bool:
        return self._clock.monotonic() >= self._knows_at

    def _serve(self) -> str:
        self._served = frozenset() if self._served else frozenset(self._cards)
        return f"a device plugin serves {sorted(self._served)}"

    def _use(self) -> str:
        self._used ^= {self._random.choice(self._cards)}
        return f"pods have {sorted(self._used)} from a device plugin"

    def _fall_silent(self) -> str:
        self._silent, self._has_socket = not self._silent, self._random.random() < 0.7
        return f"the kubelet {'is silent' if self._silent else 'answers'}, socket {self._has_socket}"

    def _restart(self) -> str:
        self._run += 1
        self._silent = False
        self._knows_at = self._clock.monotonic() + self._random.choice(REGISTERS_SECONDS)
        return f"the kubelet restarts, and knows all again at {self._knows_at:g}"

    def _register(self) -> str:
        self._said_at = self._clock.monotonic() + self._random.choice(REGISTERS_SECONDS[1:])
        return f"the Node is registered anew, and says what runs its containers at {self._said_at:g}"

    def _named_as(self, cards: Collection[str]) -> frozenset[PluginDevice]:
        return frozenset(PluginDevice(self._resource, self._devices[uuid]) for uuid in cards)
