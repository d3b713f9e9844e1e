"""What Kubernetes 1.38 warns of in DeviceTaintRules. Pure."""

from collections.abc import Iterator

from cli.doctor.upgrade.concerns import Concern
from driver.kube.api import Object


def of_taint_rule(rule: Object) -> Iterator[Concern]:
    """All concerns about a rule."""
    selector = rule["spec"].get("deviceSelector")
    if selector is None or any(selector.get(name) for name in ("driver", "pool", "device")):
        return
    effect = (rule["spec"].get("taint") or {}).get("effect") or ""
    reason = "it taints every device of every driver, of which 1.38 warns; the gate of such rules is locked to on there"
    remedy = "name the driver, the pool or the device in spec.deviceSelector, or delete the rule"
    yield Concern("warning", "spec.deviceSelector", f"{{}}, effect {effect}", reason, remedy)
