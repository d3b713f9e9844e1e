"""The rules of Prometheus as an object for its operator. The source is a plain rule file, for those who have none."""

from pathlib import Path
from typing import Final

import yaml

MANIFESTS: Final = Path(__file__).parents[1] / "manifests"
RULES: Final = "monitoring/rules.yaml"
"""The rule file, in the manifests."""
_RULE: Final = "monitoring/prometheusrule.yaml"


def rules_text() -> str:
    """The rule file."""
    return (MANIFESTS / RULES).read_text()


def files() -> dict[str, str]:
    """The content of each generated file, by its path in the manifests."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "lode", "namespace": "lode-system"},
        "spec": yaml.safe_load(rules_text()),
    }
    text = yaml.safe_dump(rule, sort_keys=False, width=1_000_000)
    return {_RULE: f"# Generated from rules.yaml by `make chart`.\n{text}"}
