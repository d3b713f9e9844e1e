"""A small cluster with two fabrics, and gangs of pods. The scheduler is the test's: it binds what was let go."""

from typing import Any

from driver.kube.api import NODES, PODS, Object
from tests.unit.controller.loop.world import GATE, ControllerWorld

FABRIC = {"nodeLabel": "fabric"}


class GangWorld(ControllerWorld):
    """Nodes ``a1``, ``a2``, ... in fabric a, ``b1``, ... in fabric b, with two cards each."""

    def __init__(self, cards: int = 2, settings: dict[str, Any] | None = None, **sizes: int):
        super().__init__(nodes=0, **(settings or {}))
        for fabric, count in sizes.items():
            for number in range(1, count + 1):
                self.add_node(f"{fabric}{number}", cards)
                self.label(f"{fabric}{number}", fabric)

    def label(self, node: str, fabric: str | None) -> None:
        self.api.patch(NODES, node, {"metadata": {"labels": {"fabric": fabric}}})

    def add_gang(
        self,
        name: str,
        count: int,
        minimum: int = 0,
        first: int = 0,
        size: int = 1,
        gang: Object | None = None,
        **pod: Any,
    ) -> tuple[str, ...]:
        """Members ``<name>-<number>``, each with a claim of its own for ``size`` cards.

        Args:
            gang: further fields of ``gang`` in the claims.
        """
        names = tuple(f"{name}-{number}" for number in range(first, first + count))
        for member in names:
            self.add_claim(member, size, config=[gang_config(name, minimum or count, **(gang or {}))])
            self.add_pod(member, member, **pod)
        return names

    def bind_all(self, refuses: tuple[str, ...] = ()) -> None:
        """Bind every pod that was let go to the node of its devices; the nodes ``refuses`` take none."""
        for raw in self.api.list(PODS).items:
            name, spec = raw["metadata"]["name"], raw["spec"]
            if spec.get("schedulingGates") or spec.get("nodeName"):
                continue
            node = self.node_of(name)
            if node and node not in refuses:
                self.bind(name, node)
            elif node:
                self.refuse(name, "0/4 nodes are available: 1 node(s) didn't satisfy plugin(s) [Unknown]")

    def node_of(self, pod: str) -> str:
        """The node of the pod's devices; "" if it has none."""
        claims = [entry["resourceClaimName"] for entry in self.pod(pod)["spec"].get("resourceClaims") or []]
        places = {place.split("/")[0] for claim in claims for place in self.devices(claim)}
        assert len(places) <= 1
        return next(iter(places), "")

    def nodes_of(self, *pods: str) -> list[str]:
        return [self.node_of(pod) for pod in pods]

    def let_go(self, *pods: str) -> list[str]:
        """Those without our gate."""
        return [pod for pod in pods if GATE not in self.gates(pod)]

    def end(self, pod: str) -> None:
        """The pod is deleted for good, and its own claim with it."""
        self.remove_pod(pod)

    def check_gang(self, *pods: str, minimum: int, fabrics: int = 1) -> None:
        """All or nothing, and in one fabric."""
        self.check()
        held = [node for node in self.nodes_of(*pods) if node]
        assert not held or len(held) >= minimum, f"{len(held)} members hold devices"
        assert len({node[0] for node in held}) <= fabrics


def gang_config(name: str = "", minimum: int = 0, topology: list[Object] | None = None, **gang: Any) -> Object:
    """Opaque parameters of a claim: gang ``name``, or the one that the pod's group says, inside one fabric."""
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {**({"name": name, "minAvailable": minimum} if name else {}), **gang},
        "topology": [FABRIC] if topology is None else topology,
    }
    return {"opaque": {"driver": "lode.dev", "parameters": parameters}}
