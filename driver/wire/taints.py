"""Taints and tolerations of devices."""

from driver.model import Taint, TaintRule, Toleration
from driver.wire.fields import Json, sparse


def taint_from(raw: Json) -> Taint:
    """A device taint of a slice or DeviceTaintRule."""
    return Taint(raw["key"], raw.get("value", ""), raw["effect"], raw.get("timeAdded") or "")


def taint_rule_from(raw: Json) -> TaintRule:
    """A DeviceTaintRule object as a value."""
    spec = raw["spec"]
    selector = spec.get("deviceSelector")
    named = selector or {}
    return TaintRule(
        name=raw["metadata"]["name"],
        taint=taint_from(spec["taint"]),
        selects=selector is not None,
        driver=named.get("driver") or "",
        pool=named.get("pool") or "",
        device=named.get("device") or "",
    )


def toleration_from(raw: Json) -> Toleration:
    """A device toleration."""
    return Toleration(
        raw.get("key", ""),
        raw.get("operator") or "Equal",
        raw.get("value", ""),
        raw.get("effect", ""),
        raw.get("tolerationSeconds"),
    )


def toleration_to(toleration: Toleration) -> Json:
    """A device toleration as JSON."""
    raw = sparse(key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect)
    return raw if toleration.seconds is None else {**raw, "tolerationSeconds": toleration.seconds}
