"""A workload as API objects, one per line. It is deterministic: every allocator reads the same bytes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from benchmarks.allocation.hardware import CARDS, FABRIC, NODE, NODES_PER_FABRIC, Model, slices
from benchmarks.allocation.workloads import SHAPES, Workload
from driver.names import Names
from driver.wire import Json

Form = Literal["repeated", "mixed", "churn"]
FORMS: tuple[Form, ...] = ("repeated", "mixed", "churn")
FLOOR = 32
"""The churn form releases nothing while at most this many claims hold devices."""
_SEED = "20260"


@dataclass(frozen=True)
class BenchmarkScenario:
    """A workload with a number of nodes and a part of their cards in use."""

    workload: Workload
    nodes: int
    in_use: str

    @property
    def name(self) -> str:
        """A name such as ``single-1000-90``; part of every seed."""
        return f"{self.workload.name}-{self.nodes}-{self.in_use}"

    def cluster(self) -> Iterator[str]:
        """Classes, nodes, slices and the claims that hold the devices in use: a line of JSON each."""
        for raw in self.workload.classes():
            yield json.dumps(raw) + "\n"
        drawn = Random(f"{_SEED}-{self.workload.name}-models")
        weights = [model.weight for model in self.workload.models]
        models = drawn.choices(self.workload.models, weights, k=self.nodes)
        makes = {self.workload.driver: self.workload.make, **self.workload.besides}
        texts = {model: "".join(slices(model, make, driver) for driver, make in makes.items()) for model in set(models)}
        for number in range(self.nodes):
            yield _node(number)
        for number, model in enumerate(models):
            yield texts[model].replace(NODE, node_name(number)).replace(FABRIC, _fabric(number))
        yield from self._in_use(models)

    def _in_use(self, models: list[Model]) -> Iterator[str]:
        random = Random(f"{_SEED}-{self.name}-in-use")
        percent, occupy = int(self.in_use.rstrip("p")), self.workload.occupied_by(self.in_use)
        if self.in_use.endswith("p"):
            nodes = random.sample(range(self.nodes), self.nodes * percent // 100)
            cards = [(node, 0) for node in sorted(nodes)]
        else:
            everything = range(self.nodes * CARDS)
            cards = [
                divmod(card, CARDS) for card in sorted(random.sample(everything, len(everything) * percent // 100))
            ]
        names, count = Names(self.workload.driver), 0
        for node, index in cards:
            place = {"request": "cards", "driver": names.driver, "pool": names.pool(node_name(node))}
            for results in occupy(models[node], index, random):
                held = [{**place, **result} for result in results]
                yield json.dumps(held_claim(f"old-{count}", self.workload.claim, held, node_name(node))) + "\n"
                count += 1

    def pods(self, form: Form) -> Iterator[str]:
        """The pods to place, in order, and what is released after each: a line of JSON each."""
        count = self.workload.pods[form]
        random = Random(f"{_SEED}-{self.name}-{form}")
        shapes = [self.workload.shape(i, random) for i in range(SHAPES)] if form == "mixed" else [self.workload.claim]
        order = [*range(len(shapes))]
        for number in range(count):
            if number % len(shapes) == 0:
                random.shuffle(order)
            claim = new_claim(f"new-{number}", shapes[order[number % len(shapes)]])
            release = random.randrange(2**31) if form == "churn" else -1
            yield json.dumps({"claims": [claim], "release": release, "floor": FLOOR}) + "\n"


def node_name(number: int) -> str:
    """The name of a node; names sort in the order of the nodes."""
    return f"node-{number:05}"


def _fabric(number: int) -> str:
    return f"fabric-{number // NODES_PER_FABRIC:03}"


def _node(number: int) -> str:
    metadata = {"name": node_name(number), "labels": {"kubernetes.io/hostname": node_name(number)}}
    return json.dumps({"kind": "Node", "apiVersion": "v1", "metadata": metadata}) + "\n"


def new_claim(name: str, spec: Json) -> Json:
    """A claim that holds nothing yet."""
    metadata = {"name": name, "namespace": "bench", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": metadata, "spec": spec}


def held_claim(name: str, spec: Json, results: list[Json], node: str) -> Json:
    """A claim that holds these devices of the node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    return {**new_claim(name, spec), "status": {"allocation": allocation}}
