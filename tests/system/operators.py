"""What operators do, and what happens to machines, in a history."""

import random
from collections.abc import Callable, Sequence

from driver.kube.api import DEVICE_CLASSES, DEVICE_TAINT_RULES, NODES, Object, Resource
from kubeletplugin.hardware.simulated import Profile
from tests.simulation.cluster import SimulatedCluster
from tests.system.card_incidents import CardIncidents, mend_cards
from tests.system.objects import attribute, device_classes, taint_rule

TAINT_RULES = ("rule-0", "rule-1")
JOINING = ("a1", "n0", "n15", "z9")
"""Names of nodes that join: before, between and after those that are there."""
MOST_NODES = 4
UNDOING_STEPS = 100


class Operators:
    """The actions of the operators of one seed. No action waits for its effect.

    Args:
        profiles: the cards of nodes that join.
    """

    def __init__(self, randomness: random.Random, cluster: SimulatedCluster, profiles: Sequence[Profile]):
        self._random = randomness
        self._cluster = cluster
        self._api = cluster.user
        self._profiles = profiles
        self.actions: list[tuple[int, Callable[[], None]]] = [
            (9, self._taint),
            (6, self._change_class),
            (3, self._cordon),
            (3, self._relabel),
            (4, self._node_joins),
            (1, self._node_is_recreated),
            (3, self._hardware_is_silent),
            *CardIncidents(randomness, cluster).actions,
            (3, self._reboot),
            (6, self._crash),
            (3, self._stall),
            (2, self._compact),
        ]

    def undo(self) -> None:
        """Uncordon all nodes, mend all cards, and remove labels, taint rules and changes of classes."""
        mend_cards(self._cluster)
        for hardware in self._cluster.hardware.values():
            hardware.faults.clear()
        undone = [self._undo_taints, self._undo_classes, self._undo_nodes]
        self._random.shuffle(undone)
        for undo in undone:
            undo()
            # So that each has to wake those that wait for it alone.
            self._cluster.run(UNDOING_STEPS)

    def _undo_taints(self) -> None:
        for name in TAINT_RULES:
            self._delete_if_there(DEVICE_TAINT_RULES, name)

    def _undo_classes(self) -> None:
        for wanted in device_classes():
            self._set_class(wanted)

    def _undo_nodes(self) -> None:
        for node in self._cluster.nodes:
            labels = {"lode.dev/ib-cluster": None}
            self._api.patch(NODES, node, {"metadata": {"labels": labels}, "spec": {"unschedulable": None}})

    # Devices

    def _taint(self) -> None:
        """Add a taint rule, let it taint something else, or remove it."""
        known = {rule["metadata"]["name"]: rule for rule in self._api.list(DEVICE_TAINT_RULES).items}
        name = self._random.choice((*known, *TAINT_RULES))
        device = self._random.choice(("", "", "gpu-0", "gpu-0-share"))
        pool = self._random.choice((self._cluster.names.pool(self._node()),) * 3 + ("",))
        wanted = taint_rule(name, pool, device, self._random.choice("xy"))
        if name not in known:
            self._api.create(DEVICE_TAINT_RULES, wanted)
        elif self._random.random() < 0.6:
            self._api.update(DEVICE_TAINT_RULES, {**known[name], "spec": wanted["spec"]})
        else:
            self._api.delete(DEVICE_TAINT_RULES, name)

    def _change_class(self) -> None:
        """Restrict a class to the first card of each node, delete it, or make it as it was."""
        wanted = self._random.choice(device_classes())
        match self._random.choice(("restrict", "restrict", "restore", "delete")):
            case "delete":
                self._delete_if_there(DEVICE_CLASSES, wanted["metadata"]["name"])
            case "restrict":
                only = {"cel": {"expression": f"{attribute('index')} == 0"}}
                self._set_class({**wanted, "spec": {"selectors": [*wanted["spec"]["selectors"], only]}})
            case _:
                self._set_class(wanted)

    def _set_class(self, wanted: Object) -> None:
        name = wanted["metadata"]["name"]
        known = {known["metadata"]["name"]: known for known in self._api.list(DEVICE_CLASSES).items}
        if name not in known:
            self._api.create(DEVICE_CLASSES, wanted)
        elif known[name]["spec"] != wanted["spec"]:
            self._api.update(DEVICE_CLASSES, {**known[name], "spec": wanted["spec"]})

    def _delete_if_there(self, resource: Resource, name: str) -> None:
        if any(known["metadata"]["name"] == name for known in self._api.list(resource).items):
            self._api.delete(resource, name)

    def _hardware_is_silent(self) -> None:
        """The library of a node's vendor stops answering, perhaps just when the node changes, or answers again."""
        node = self._node()
        hardware = self._cluster.hardware[node]
        hardware.answers = not hardware.answers
        if self._random.random() < 0.5:
            self._label(node)

    # Nodes

    def _node(self) -> str:
        return self._random.choice(list(self._cluster.nodes))

    def _cordon(self) -> None:
        patch = {"spec": {"unschedulable": self._random.choice((True, None))}}
        self._api.patch(NODES, self._node(), patch)

    def _relabel(self) -> None:
        self._label(self._node())

    def _label(self, node: str) -> None:
        labels = {"lode.dev/ib-cluster": self._random.choice(("fabric-a", "fabric-b", None))}
        self._api.patch(NODES, node, {"metadata": {"labels": labels}})

    def _node_joins(self) -> None:
        free = [name for name in JOINING if name not in self._cluster.nodes]
        if len(self._cluster.nodes) < MOST_NODES:
            self._cluster.add_node(self._random.choice(free), self._random.choice(self._profiles))

    def _node_is_recreated(self) -> None:
        self._cluster.recreate_node_object(self._node())

    def _reboot(self) -> None:
        self._cluster.reboot(self._node(), power_lost=self._random.random() < 0.5)

    # Programs and the API server

    def _crash(self) -> None:
        self._cluster.slots.kill(self._random.choice(list(self._cluster.slots)), self._random.choice((0.0, 3.0, 40.0)))

    def _stall(self) -> None:
        """A program, often a leader, does not run for a while."""
        leaders = [name for name, slot in self._cluster.slots.items() if getattr(slot.program, "leads", False)]
        names = leaders if leaders and self._random.random() < 0.4 else list(self._cluster.slots)
        self._cluster.slots.stall(self._random.choice(names), self._random.choice((2.0, 30.0, 250.0)))

    def _compact(self) -> None:
        self._cluster.api.compact()
