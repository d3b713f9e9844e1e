"""Decisions in a line, as the tables of tests have them."""

from controller.reconcile.decisions import Decision, LetGo, PlacePod, Release, TakeBack, Wait
from controller.refusal import Refusal
from driver.model import Allocation, DeviceId


def about(decision: Decision) -> str:
    """A decision in a line: what, where, which claims get which device, which are only reserved."""
    match decision:
        case PlacePod(on, allocations, reserve):
            given = [f"{key.split('/')[1]}={_device(one)}" for key, one in allocations]
            return " ".join(["place", on, *given, *(f"reserve:{key.split('/')[1]}" for key in reserve)])
        case Wait(reason=reason, report=report):
            return f"wait {reason}" + ("" if report else " without report")
        case TakeBack(claims, on, unschedulable=unschedulable):
            cause = ["unschedulable"] if unschedulable else []
            return " ".join(["take back", on, *(key.split("/")[1] for key in claims), *cause])
        case LetGo():
            return "remove gate"
        case Release(claims, on):
            return " ".join(["release", on, *(key.split("/")[1] for key in claims)])
        case Refusal():
            return "unallocatable"
    return type(decision).__name__.lower()


def _device(one: Allocation) -> str:
    device: DeviceId = one.results[0].device
    return f"{device.pool.split('/')[0]}/{device.device}"
