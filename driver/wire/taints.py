"""Taints and tolerations of devices."""

from dataclasses import replace

from driver.model import Taint, TaintRule, Toleration
from driver.wire.fields import Json, integer, sparse, text


def taint_from(raw: Json) -> Taint:
    """A device taint of a slice or DeviceTaintRule."""
    return Taint(text(raw["key"]), text(raw.get("value")), text(raw["effect"]), text(raw.get("timeAdded")))


def taint_rule_from(raw: Json) -> TaintRule:
    """A DeviceTaintRule object as a value."""
    spec = raw["spec"]
    selector = spec.get("deviceSelector")
    named = selector or {}
    name = text(raw["metadata"]["name"])
    return TaintRule(
        name=name,
        taint=replace(taint_from(spec["taint"]), rule=name),
        selects=selector is not None,
        driver=text(named.get("driver")),
        pool=text(named.get("pool")),
        device=text(named.get("device")),
    )


def toleration_from(raw: Json) -> Toleration:
    """A device toleration."""
    seconds = raw.get("tolerationSeconds")
    return Toleration(
        text(raw.get("key")),
        text(raw.get("operator")) or "Equal",
        text(raw.get("value")),
        text(raw.get("effect")),
        None if seconds is None else integer(seconds),
    )


def toleration_to(toleration: Toleration) -> Json:
    """A device toleration as JSON."""
    raw = sparse(key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect)
    return raw if toleration.seconds is None else {**raw, "tolerationSeconds": toleration.seconds}
