"""The rules of docs/devices.md join what exporters release: Prometheus evaluates them on series with their labels."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.observe import Metrics
from driver.settings import Settings
from kubeletplugin.prepare import Preparer
from tests.unit.kubeletplugin.plugin_node import PluginNode, prepare, result

PAGE = Path(__file__).parents[2] / "docs/devices.md"
METRICS = PAGE.with_name("metrics.md")
SCRAPED = {"instance": "10.0.0.1:8080", "namespace": "lode-plugin", "pod": "lode-kubeletplugin-x"}
"""What a scrape adds to the plugin's series."""
UTIL, CLAIMS_OF_PODS = "DCGM_FI_DEV_GPU_UTIL", "kube_pod_resourceclaim_info"


def series(name: str, labels: Mapping[str, str], value: float) -> dict[str, str]:
    """A series as promtool reads it, with the same value all the time."""
    return {"series": f"{name}{selector(labels)}", "values": f"{value}x5"}


def selector(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{label}={json.dumps(value)}" for label, value in labels.items()) + "}"


def card(uuid: str, index: int, **more: str) -> dict[str, str]:
    """The labels of a card's series in dcgm-exporter 4."""
    known = {"gpu": str(index), "UUID": uuid, "pci_bus_id": f"00000000:{index:02}:00.0", "device": f"nvidia{index}"}
    return {**known, "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": "node-a", **more}


def pod(name: str, claim: str) -> dict[str, str]:
    """The labels of a pod's claim in kube-state-metrics 2.20."""
    known = {"namespace": "team", "pod": name, "uid": f"uid-of-{name}", "claim_name": "gpu"}
    return {**known, "resourceclaim_name": claim, "resourceclaim_template_name": "gpus"}


def published(rig: PluginNode, *refs: Any) -> list[dict[str, str]]:
    """The series of a plugin that has prepared the claims."""
    rig.settings = Settings.model_validate({"kubeletplugin": {"claimMetrics": True}})
    metrics = Metrics()
    preparer = Preparer(rig.context(), metrics)
    for ref in refs:
        prepare(preparer, ref)
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return [
        series(sample.name, {**sample.labels, **SCRAPED}, sample.value)
        for sample in samples
        if sample.name == "lode_claim_device_info"
    ]


def check(program: Path, folder: Path, inputs: list[dict[str, str]], expected: Mapping[str, Any]) -> None:
    """Have Prometheus evaluate the rules of the page; ``expected`` has the samples of each record."""
    (rules,) = re.findall(r"```yaml\n(groups:.*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "rules.yaml").write_text(rules)
    tests = [{"expr": record, "eval_time": "3m", "exp_samples": samples} for record, samples in expected.items()]
    content = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": tests}],
    }
    (folder / "test.json").write_text(json.dumps(content))  # JSON is YAML
    command = [str(program), "test", "rules", "test.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_cards_of_a_claim_and_of_its_pods_are_as_busy_as_dcgm_says(program: Path, tmp_path: Path) -> None:
    rig = PluginNode()
    uuids = [one.uuid for one in rig.hardware.cards()]
    two, one = rig.claim("two", [result("gpu-0"), result("gpu-1", "other")]), rig.claim("one", [result("gpu-2")])
    inputs = [
        *published(rig, two, one),
        *(series(UTIL, card(uuid, index), 25 * (index + 1)) for index, uuid in enumerate(uuids)),
        series(CLAIMS_OF_PODS, pod("a", "two"), 1),
        series(CLAIMS_OF_PODS, pod("b", "one"), 1),
        series(CLAIMS_OF_PODS, pod("c", "one"), 1),
        series(CLAIMS_OF_PODS, pod("waits", "pending"), 1),
    ]
    record = "lode:pod_card_utilization:ratio"
    busy = {("a", "two"): 0.375, ("b", "one"): 0.75, ("c", "one"): 0.75}
    samples = [
        {"labels": record + selector({**pod(name, claim), "claim": claim, "claim_namespace": "team"}), "value": value}
        for (name, claim), value in busy.items()
    ]
    of_claims = [
        {
            "labels": "lode:claim_card_utilization:ratio"
            + selector({"claim_namespace": "team", "claim": claim, "device": device, "uuid": uuid, **SCRAPED}),
            "value": value,
        }
        for claim, device, uuid, value in (
            ("two", "gpu-0", uuids[0], 0.25),
            ("two", "gpu-1", uuids[1], 0.5),
            ("one", "gpu-2", uuids[2], 0.75),
        )
    ]
    check(program, tmp_path, inputs, {record: samples, "lode:claim_card_utilization:ratio": of_claims})


def test_the_queries_for_what_cards_measure_name_who_has_them(program: Path, tmp_path: Path) -> None:
    """Also while two instances of the plugin measure the same card, during an update."""
    section = METRICS.read_text().partition("### Utilization, memory")[2]
    of_claims, of_devices, of_cards = re.findall(r"```\n(.*?)```", section, re.DOTALL)[0].strip().split("\n")
    held = {"namespace": "team", "pod": "p", "claim": "c", "node": "n1", "card": "gpu-0", "uuid": "GPU-1"}
    device = {"claim_namespace": "team", "claim": "c", "device": "gpu-0", "uuid": "GPU-1", **SCRAPED}
    known = {"node": "n1", "card": "gpu-0", "uuid": "GPU-1", "type": "H100"}
    inputs = [
        series("lode_allocation_info", held, 1),
        series("lode_allocation_info", {**held, "pod": ""}, 1),
        series("lode_claim_device_info", device, 1),
        series("lode_card_info", {**known, "vendor": "nvidia", "model": "NVIDIA H100", "ib_cluster": ""}, 1),
    ]
    values = {"utilization_ratio": 0.5, "memory_used_bytes": 1024, "power_watts": 300}
    for instance in ("old", "new"):
        measured = {"card": "gpu-0", "index": "0", "uuid": "GPU-1", **SCRAPED, "instance": instance}
        inputs += [series(f"lode_card_{name}", measured, value) for name, value in values.items()]
    expected = {of_claims: (held, 0.5), of_devices: (device, 1024), of_cards: (known, 300)}
    check(
        program,
        tmp_path,
        inputs,
        {query: [{"labels": selector(labels), "value": value}] for query, (labels, value) in expected.items()},
    )


def test_series_of_mig_instances_have_the_uuid_of_their_card(program: Path, tmp_path: Path) -> None:
    rig = PluginNode()
    uuid = rig.hardware.cards()[3].uuid
    ref = rig.claim("c", [result("gpu-3")])
    parts = [{"GPU_I_PROFILE": "1g.5gb", "GPU_I_ID": str(number)} for number in (7, 8)]
    inputs = [
        *published(rig, ref),
        *(series(UTIL, card(uuid, 3, **part), value) for part, value in zip(parts, (25, 50), strict=True)),
        series(CLAIMS_OF_PODS, pod("p", "c"), 1),
    ]
    record = "lode:pod_card_utilization:ratio"
    labels = selector({**pod("p", "c"), "claim": "c", "claim_namespace": "team"})
    check(program, tmp_path, inputs, {record: [{"labels": record + labels, "value": 0.5}]})
