"""Pods with alternatives (``firstAvailable``), and where kube-scheduler bound them, as recorded in tests/data.

    python -m tests.recorded_scores [CASES]     record anew, from a real control plane

Each case has a driver of its own, so that cases do not interfere: devices of three kinds and cards that can be had
whole or in halves, some of them in use, and one pod that asks for alternatives.
"""

import json
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from driver.kube.api import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.kube.client import KubeClient
from testclusters.controlplane import ControlPlane

_FILE = Path(__file__).parent / "data" / "conformance" / "scores.jsonl"
CLASS: Object = {"metadata": {"name": "any"}, "spec": {}}
"""The class of all requests; their selectors tell the driver and the kind."""
_NODES = ("n1", "n2", "n3", "n4")
_KINDS = ("a", "b", "c", "whole", "half")
_SCORED = re.compile(r'scored node for pod" pod="default/(\S+)" plugin="DynamicResources" node="(\S+)" score=(\d+)')


@dataclass(frozen=True)
class Case:
    """One pod in a small cluster.

    Attributes:
        nodes: per node, each device's kind and whether it is in use. A card is a ``whole`` with two ``half``.
        claims: per claim and request, the kind and the count of each alternative.
        scores: what kube-scheduler's plugin DynamicResources gave each feasible node; empty if fewer than two were.
        bound: the node that it bound the pod to; "" if none.
        chosen: the names of the requests that it allocated, per claim.
    """

    name: str
    nodes: Mapping[str, Sequence[tuple[str, str, bool]]]
    claims: Sequence[Sequence[Sequence[tuple[str, int]]]]
    scores: Mapping[str, int]
    bound: str
    chosen: Sequence[Sequence[str]]

    @property
    def driver(self) -> str:
        """The name of the case's driver."""
        return f"{self.name}.example.com"

    def slices(self) -> Iterator[Object]:
        """The devices, two slices a node: one with counters, one with devices."""
        for node, devices in self.nodes.items():
            cards = [name for name, kind, _ in devices if kind == "whole"]
            pool = {"name": f"{node}/{self.driver}", "generation": 1, "resourceSliceCount": 2 if cards else 1}
            spec = {"driver": self.driver, "nodeName": node, "pool": pool}
            yield _object(f"{self.name}-{node}-devices", {**spec, "devices": [*map(self._device, devices)]})
            if cards:
                sets = [{"name": card, "counters": {"halves": {"value": "2"}}} for card in cards]
                yield _object(f"{self.name}-{node}-counters", {**spec, "sharedCounters": sets})

    def _device(self, device: tuple[str, str, bool]) -> Object:
        name, kind, _ = device
        made: Object = {"name": name, "attributes": {"kind": {"string": kind}}}
        if kind in ("whole", "half"):
            drawn = {"halves": {"value": "2" if kind == "whole" else "1"}}
            made["consumesCounters"] = [{"counterSet": name.removesuffix("-x").removesuffix("-y"), "counters": drawn}]
        return made

    def wanted(self) -> Sequence[Object]:
        """The claims of the pod."""
        return [
            _object(
                f"{self.name}-{number}", {"devices": {"requests": [*map(self._request, range(32), requests)]}}, True
            )
            for number, requests in enumerate(self.claims)
        ]

    def _request(self, number: int, alternatives: Sequence[tuple[str, int]]) -> Object:
        first = [
            {"name": f"s{at}", "deviceClassName": "any", "count": count, "selectors": [self._selector(kind)]}
            for at, (kind, count) in enumerate(alternatives)
        ]
        return {"name": f"r{number}", "firstAvailable": first}

    def _selector(self, kind: str) -> Object:
        kinds = f'device.attributes["{self.driver}"].kind == "{kind}"'
        return {"cel": {"expression": f'device.driver == "{self.driver}" && {kinds}'}}

    def holders(self) -> Iterator[Object]:
        """A claim for each device in use, which holds it."""
        for node, devices in self.nodes.items():
            for name, kind, used in devices:
                if used:
                    exactly = {"deviceClassName": "any", "selectors": [self._selector(kind)]}
                    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
                    claim = _object(f"{self.name}-{node}-{name}", spec, True)
                    result = {"request": "r", "driver": self.driver, "pool": f"{node}/{self.driver}", "device": name}
                    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
                    yield claim | {
                        "status": {
                            "allocation": {
                                "devices": {"results": [result]},
                                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
                            }
                        }
                    }


def _object(name: str, spec: Object, namespaced: bool = False) -> Object:
    return {"metadata": {"name": name, **({"namespace": "default"} if namespaced else {})}, "spec": spec}


def recorded() -> Iterator[Case]:
    """The cases of the file."""
    for line in _FILE.read_text().splitlines():
        raw = json.loads(line)
        nodes = {node: [tuple(device) for device in devices] for node, devices in raw["nodes"].items()}
        yield Case(**{**raw, "nodes": nodes})


# Recording


def _random_case(name: str, dice: random.Random) -> Case:
    def devices() -> list[tuple[str, str, bool]]:
        made = [(f"{kind}{number}", kind, dice.random() < 0.4) for kind in "abc" for number in range(dice.randrange(3))]
        for card in range(dice.randrange(3)):
            state = dice.randrange(4)
            made.append((f"card{card}", "whole", state == 1))
            made += [(f"card{card}-{half}", "half", half == "x" and state == 2) for half in "xy"]
        return made

    def request() -> list[tuple[str, int]]:
        kinds = dice.sample(_KINDS, dice.randint(2, 4))
        return [(kind, dice.choice((1, 1, 2))) for kind in kinds]

    claims = [[request() for _ in range(dice.randint(1, 2))] for _ in range(dice.randint(1, 2))]
    return Case(name, {node: devices() for node in _NODES}, claims, {}, "", [])


def _create(api: Api, case: Case) -> None:
    for part in case.slices():
        if part["spec"].get("devices") or part["spec"].get("sharedCounters"):
            api.create(RESOURCE_SLICES, part)
    for holder in case.holders():
        stored = api.create(RESOURCE_CLAIMS, holder)
        api.update(RESOURCE_CLAIMS, {**stored, "status": holder["status"]}, "status")
    for claim in case.wanted():
        api.create(RESOURCE_CLAIMS, claim)
    entries = [{"name": f"c{at}", "resourceClaimName": f"{case.name}-{at}"} for at in range(len(case.claims))]
    container = {"name": "main", "image": "pause"}
    pod = _object(case.name, {"containers": [container], "resourceClaims": entries}, True)
    api.create(PODS, pod)


def _answer(api: Api, case: Case, scores: Mapping[str, int]) -> Case:
    bound = api.get(PODS, case.name, "default")["spec"].get("nodeName", "")
    chosen = []
    for claim in case.wanted():
        status = api.get(RESOURCE_CLAIMS, claim["metadata"]["name"], "default").get("status", {})
        results = status.get("allocation", {}).get("devices", {}).get("results", [])
        chosen.append(sorted({one["request"] for one in results}))
    return Case(**{**asdict(case), "scores": scores, "bound": bound, "chosen": chosen})


def _is_decided(api: Api, name: str) -> bool:
    pod = api.get(PODS, name, "default")
    return bool(pod["spec"].get("nodeName") or pod.get("status", {}).get("conditions"))


def main(cases: int) -> None:
    """Let kube-scheduler decide random cases, and write what it did to the file."""
    dice = random.Random(8)
    with ControlPlane(flags={"kube-scheduler": ["--vmodule=schedule_one=10"]}) as plane:
        api = KubeClient.from_environment(str(plane.kubeconfig()))
        for node in _NODES:
            plane.add_node(node)
        api.create(DEVICE_CLASSES, CLASS)
        made: list[Any] = [_random_case(f"case{number}", dice) for number in range(cases)]
        for case in made:
            _create(api, case)
        for case in made:
            while not _is_decided(api, case.name):
                time.sleep(0.1)
        scores: dict[str, dict[str, int]] = {case.name: {} for case in made}
        for pod, node, score in _SCORED.findall(plane.log("kube-scheduler")):
            scores[pod][node] = int(score)
        answers = [asdict(_answer(api, case, scores[case.name])) for case in made]
        lines = [json.dumps(answer, separators=(",", ":")) for answer in answers]
    _FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
