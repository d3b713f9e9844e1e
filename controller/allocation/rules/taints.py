"""Device taints, from slices and from DeviceTaintRules, and the tolerations of requests (resource.k8s.io/v1)."""

from collections.abc import Iterable

from driver.model import DeviceId, Taint, TaintRule, Toleration


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps the device from being allocated to a request with these tolerations, or None."""
    for taint in taints:
        if taint.excludes and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.operator == "Equal" and (toleration.key, toleration.value) == (taint.key, taint.value)


def applies(rule: TaintRule, device: DeviceId) -> bool:
    """True if the rule taints the device. A rule without a device selector taints nothing."""
    if not rule.selects:
        return False
    wanted = ((rule.driver, device.driver), (rule.pool, device.pool), (rule.device, device.device))
    return all(asked in ("", actual) for asked, actual in wanted)
