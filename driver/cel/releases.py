"""What Kubernetes 1.37 and 1.38 do differently in device selectors: one table for each, side by side. Pure.

Each entry of a `KubernetesRelease` is a rule that versions do not share. The rest of the package asks for an entry,
never for the version. `BOTH` is the stricter of all, entry by entry, and decides what is allocated: what one version
refuses is refused, what fails in one fails, and of two costs the higher one counts.

One evaluation by the rules of `BOTH` is enough. CEL handles a fault like a value that is not known: if an expression
has a value although a part of it failed, then it has the same value whatever that part is. So if `BOTH` has a fault
wherever one version has a fault or the versions have different values, then each of its values is that of all versions.
The cost is counted in the same way: the higher one at each step. What a version evaluates only because its condition is
no fault is not counted here; the estimate of admission, which bounds what is stored, counts both branches.

Sources: ``pkg/cel/environment`` and ``pkg/cel/library`` of k8s.io/apiserver, ``cel`` of
k8s.io/dynamic-resource-allocation (both v0.37.1 and v0.38.0-beta.0), and cel-go v0.29.2 and v0.33.2 with the version of
its cost model that Kubernetes sets.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class DeviceMaps(Enum):
    """How the maps of attributes and capacities treat keys that are not strings, and elements that do not compare."""

    PLAIN = "no name is such a key; such elements count as equal"
    PROXIES = "the text of a key is the name, such as true; such elements fail the comparison of the maps"
    UNCLEAR = "a fault, where it makes a difference"


@dataclass(frozen=True, slots=True)
class KubernetesRelease:
    """The rules of one version of Kubernetes, or the stricter ones of several.

    Attributes:
        name: as in ``1.37``.
        unknown: the functions that it does not have.
        too_new: those that only stored expressions may use, because the version before does not have them.
        compares_types: whether ``==`` refuses the type of a map beside that of an int, and alike.
        refuses_nan: whether an order of NaN and another value is a fault; else it is false.
        refuses_empty: whether a loop over an empty text is a fault, as over other texts.
        charges_failed: whether calls, lists and maps cost something although a part of them failed.
        charges_skipped: whether these cost something: an optional key that fails, the operator of ``==`` whose right
            side is not read because the left one failed, the result of a loop over an empty text, and the fields after
            an absolute name where a variable has the same name.
        bounds_more: whether the estimate knows the sizes of types, of the parts of URLs, and of the elements of lists
            that functions return. The estimate of several versions is the highest of theirs.
        maps: how the maps of a device are read.
        parts: the versions that these rules stand for; empty for one version.
    """

    name: str
    unknown: frozenset[str]
    too_new: frozenset[str]
    compares_types: bool
    refuses_nan: bool
    refuses_empty: bool
    charges_failed: bool
    charges_skipped: bool
    bounds_more: bool
    maps: DeviceMaps
    parts: tuple["KubernetesRelease", ...] = ()

    def __str__(self) -> str:
        return self.name


V1_37: Final = KubernetesRelease(
    name="1.37",
    unknown=frozenset({"isMask"}),
    too_new=frozenset({"includes"}),
    compares_types=False,
    refuses_nan=True,
    refuses_empty=True,
    charges_failed=True,
    charges_skipped=False,
    bounds_more=False,
    maps=DeviceMaps.PLAIN,
)
V1_38: Final = KubernetesRelease(
    name="1.38",
    unknown=frozenset(),
    too_new=frozenset({"isMask"}),
    compares_types=True,
    refuses_nan=False,
    refuses_empty=False,
    charges_failed=False,
    charges_skipped=True,
    bounds_more=True,
    maps=DeviceMaps.PROXIES,
)


def stricter(one: KubernetesRelease, other: KubernetesRelease) -> KubernetesRelease:
    """The rules of both: an expression has a value only if it has the same in each, and costs at least as much."""
    return KubernetesRelease(
        name=f"{one} and {other}",
        unknown=one.unknown | other.unknown,
        too_new=one.too_new | other.too_new,
        compares_types=one.compares_types or other.compares_types,
        refuses_nan=one.refuses_nan or other.refuses_nan,
        refuses_empty=one.refuses_empty or other.refuses_empty,
        charges_failed=one.charges_failed or other.charges_failed,
        charges_skipped=one.charges_skipped or other.charges_skipped,
        bounds_more=one.bounds_more and other.bounds_more,
        maps=one.maps if one.maps is other.maps else DeviceMaps.UNCLEAR,
        parts=(*(one.parts or (one,)), *(other.parts or (other,))),
    )


BOTH: Final = stricter(V1_37, V1_38)
RELEASES: Final = {release.name: release for release in BOTH.parts}
"""All versions, by name, the oldest first."""
