"""A fleet that Prometheus scrapes: our programs as they run, and exporters of others by what they print."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from cli.shipped import device_classes, examples
from driver.kube.api import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    ApiError,
    Object,
)
from driver.kube.objects import pod_phase
from driver.names import Names
from driver.quantity import Quantity
from memoryapi import JOBS
from simulation.kubernetes.dra_plugin import ClaimName
from simulation.realtime import RealTimeCluster
from tests.unit.docs.pages import ROOT
from tests.unit.kubeletplugin.hardware.deviceplugin.hosted import HostedNode

NAMES = Names()
NODES = {
    "gpu-1": ("h100x8", "ib-a"),
    "gpu-2": ("a100x4", "ib-b"),
    "npu-1": ("ascend310px4", ""),
    "amd-1": ("mi300x8", ""),
}
BRIDGE = "bridge"
"""A node on which our program plays the kubelet for a scripted device plugin; it publishes nothing."""
KINDS = {"ResourceClaimTemplate": RESOURCE_CLAIM_TEMPLATES, "ResourceClaim": RESOURCE_CLAIMS, "Pod": PODS, "Job": JOBS}
RULES = ROOT / "manifests/monitoring/rules.yaml"
NAMESPACE = "default"
WAITING_MEMBERS = 5
"""Of a gang for which there are too few cards."""


class WatchedFleet:
    """A cluster with all examples of requests, a pod that waits, and pods that come and go until ``close``."""

    def __init__(self, folder: Path):
        labels = {
            name: {NAMES.attribute("simulated-profile"): profile, NAMES.attribute("ib-cluster"): fabric}
            for name, (profile, fabric) in NODES.items()
        }
        self.cluster = RealTimeCluster(folder, labels, device_classes(), fleet_metrics="claims")
        self._api = self.cluster.user
        self._bridge = HostedNode(folder)
        self._stop = threading.Event()
        self._calls = 0
        self._changes = threading.Thread(target=self._change, name="changes", daemon=True)

    def begin(self) -> None:
        """Wait until everything is there that the examples ask for, and let pods come and go."""
        self._await("every node publishes its cards", lambda: self._published() == NODES.keys())
        for objects in examples().values():
            for obj in objects:
                self._api.create(KINDS[obj["kind"]], obj, NAMESPACE)
        limits = {"hard": {NAMES.attribute("memory"): "2Ti", NAMES.attribute("cores"): "1600"}}
        self._api.create(RESOURCE_QUOTAS, {"metadata": {"name": "cards", "namespace": NAMESPACE}, "spec": limits})
        self._await("every pod runs", lambda: self._running() == self._wanted())
        self._pod("whole-card", "one-too-many")
        self._gang("gang-too-many", cards=WAITING_MEMBERS)
        self._bridge.start().served()
        self._changes.start()

    def close(self) -> None:
        """End everything."""
        self._stop.set()
        self._changes.join()
        self._bridge.end()
        assert not self.cluster.close()

    def _published(self) -> set[str]:
        return {part["spec"]["nodeName"] for part in self._api.list(RESOURCE_SLICES).items}

    def _running(self) -> int:
        return sum(pod_phase(pod) == "Running" for pod in self._api.list(PODS).items)

    def _wanted(self) -> int:
        made = [obj for objects in examples().values() for obj in objects if obj["kind"] in ("Pod", "Job")]
        return sum(obj["spec"].get("completions", 1) for obj in made)

    def _await(self, state: str, reached: Callable[[], bool]) -> None:
        for _ in range(1200):
            if reached():
                return
            time.sleep(0.05)
        raise AssertionError(f"not within a minute: {state}")

    def _pod(self, example: str, name: str) -> None:
        (pod,) = (obj for obj in examples()[example] if obj["kind"] == "Pod")
        self._api.create(PODS, {**pod, "metadata": {"name": name}}, NAMESPACE)

    def _gang(self, name: str, cards: int) -> None:
        """A gang of so many pods, each of which wants a whole A100."""
        template, job = deepcopy(examples()["gang-in-one-ib-cluster"])
        for obj in (template, job):
            obj["metadata"]["name"] = name
        (request,) = template["spec"]["spec"]["devices"]["requests"]
        request["exactly"] = {**request["exactly"], "deviceClassName": "gpu.lode.dev"}
        del request["exactly"]["capacity"]
        job["spec"].update(parallelism=cards, completions=cards)
        job["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": name}]
        for obj in (template, job):
            self._api.create(KINDS[obj["kind"]], obj, NAMESPACE)

    def _change(self) -> None:
        """Have a pod come and go, and claims prepared that do not exist, again and again."""
        number = 0
        while not self._stop.wait(0.2):
            number += 1
            name = f"short-{number}"
            self._pod("share-4gi", name)
            for _ in range(20):
                if self._stop.wait(0.1) or pod_phase(self._api.get(PODS, name, NAMESPACE)) == "Running":
                    break
            with suppress(ApiError):
                self._api.delete(PODS, name, NAMESPACE)
            self.cluster.nodes["gpu-1"].client.prepare([ClaimName(NAMESPACE, "nothing", f"none-{number}")])
            self._bridge.give(name, "card-a")
            self._bridge.take(name, "card-a")
            self._calls += 1

    # What is scraped

    def text(self, path: str) -> bytes | None:
        """What is served under a path."""
        program = path.removeprefix("/").removeprefix("plugin/")
        if program == BRIDGE:
            return self._bridge.metrics.text("/metrics")
        if program in ("controller", *NODES):
            return self.cluster.series("" if program == "controller" else program)
        of_others = {"/dcgm": self._dcgm, "/npu": self._npu, "/kubelet": self._kubelet, "/state": self._state}
        found = of_others.get(path)
        return found().encode() if found else None

    def _cards(self, vendor: str) -> Iterator[tuple[int, str, str]]:
        """Number, node and uuid of the cards of a vendor."""
        found: dict[str, str] = {}
        for part in self._api.list(RESOURCE_SLICES).items:
            for device in part["spec"].get("devices") or []:
                if device["attributes"]["vendor"]["string"] == vendor:
                    found[device["attributes"]["uuid"]["string"]] = part["spec"]["nodeName"]
        for number, (uuid, node) in enumerate(sorted(found.items())):
            yield number, node, uuid

    def _dcgm(self) -> str:
        """dcgm-exporter 4 prints this of each card, and more."""
        lines = []
        for number, node, uuid in self._cards("nvidia"):
            named = f'gpu="{number}",UUID="{uuid}",device="nvidia{number}",modelName="NVIDIA H100",Hostname="{node}"'
            lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{named}}} {5 * number}")
            lines.append(f"DCGM_FI_DEV_FB_USED{{{named}}} {1000 * number}")
        return _text(lines)

    def _npu(self) -> str:
        """Ascend's npu-exporter prints this of each card, and more. These do nothing."""
        lines = []
        for number, _, uuid in self._cards("huawei"):
            named = f'id="{number}",model_name="310P3",vdie_id="{uuid}",pcie_bus_info="0000:01:00.0"'
            lines += [f"npu_chip_info_utilization{{{named}}} 0", f"npu_chip_info_hbm_used_memory{{{named}}} 100"]
        return _text(lines)

    def _kubelet(self) -> str:
        """A kubelet of 1.37 prints this of the plugins that it has called."""
        calls = self._calls
        method = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
        named = f'driver_name="{NAMES.driver}",grpc_status_code="OK",method_name="{method}"'
        name = "dra_grpc_operations_duration_seconds"
        counts = {"0.1": calls // 2, "0.5": calls, "+Inf": calls}
        buckets = [f'{name}_bucket{{{named},le="{most}"}} {count}' for most, count in counts.items()]
        sums = [f"{name}_sum{{{named}}} {calls * 0.2}", f"{name}_count{{{named}}} {calls}"]
        return _text([f"# TYPE {name} histogram", *buckets, *sums])

    def _state(self) -> str:
        """kube-state-metrics prints this of quotas."""
        lines = []
        for quota in self._api.list(RESOURCE_QUOTAS).items:
            used = (quota.get("status") or {}).get("used") or {}
            for kind, amounts in (("hard", quota["spec"]["hard"]), ("used", used)):
                lines += [_quota(quota, name, kind, str(value)) for name, value in amounts.items()]
        return _text(lines)


def _quota(quota: Object, name: str, kind: str, value: str) -> str:
    meta = quota["metadata"]
    named = f'namespace="{meta["namespace"]}",resourcequota="{meta["name"]}",resource="{name}",type="{kind}"'
    return f"kube_resourcequota{{{named}}} {Quantity.parse(value).value}"


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@contextmanager
def served(text: Callable[[str], bytes | None]) -> Iterator[str]:
    """Serve what ``text`` returns for paths until the block ends; the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = text(self.path)
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            with suppress(OSError):  # Prometheus did not wait
                self.wfile.write(found or b"")

        def log_message(self, *_: Any) -> None:
            """Requests are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def scraping(address: str, folder: Path) -> Mapping[str, Any]:
    """What Prometheus is to scrape and evaluate, every second, with labels as the PodMonitors make them."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule.pop("for", None)
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))

    def target(path: str, **labels: str) -> Mapping[str, Any]:
        return {"targets": [address], "labels": {"__metrics_path__": path, "instance": path, **labels}}

    jobs = {
        "lode-controller": [target("/controller", replica="controller-0")],
        "lode-kubeletplugin": [target(f"/plugin/{node}", pod=f"plugin-{node}") for node in (*NODES, BRIDGE)],
        "dcgm-exporter": [target("/dcgm")],
        "npu-exporter": [target("/npu")],
        "kubelet": [target("/kubelet")],
        "kube-state-metrics": [target("/state")],
    }
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [
            {"job_name": name, "honor_labels": True, "static_configs": targets} for name, targets in jobs.items()
        ],
    }
