"""What Kubernetes 1.38 refuses or reads otherwise in DeviceClasses. Pure."""

from collections.abc import Iterator

from cli.doctor.upgrade.concerns import Concern
from cli.doctor.upgrade.selector_rules import SelectorRules
from driver.kube.api import Object


def of_class(device_class: Object, selectors: SelectorRules) -> Iterator[Concern]:
    """All concerns about a class."""
    listed = (device_class.get("spec") or {}).get("selectors") or ()
    outcome = "changes of the class are refused"
    remedy = "write the selector anew, with what the message says"
    yield from selectors.concerns("spec.selectors", listed, "failed", outcome, remedy)
