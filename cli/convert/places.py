"""Where pods and pod templates are in an object of any kind, and which of its keys are old names. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod, or a pod template, in an object.

    Attributes:
        path: of the mapping with ``metadata`` and ``spec``.
        pod: that mapping.
    """

    path: Path
    pod: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OldName:
    """A key that names a resource of another system.

    Attributes:
        path: of the key.
        wanted: whether it is an amount that a container asks for, and not a quota or the like.
    """

    path: Path
    wanted: bool


def objects_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The object of a document, or those of a List, with their paths."""
    if not isinstance(value, dict):
        return
    items = value.get("items")
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        for number, item in enumerate(items):
            yield from objects_of(item, (*path, "items", number))
    else:
        yield path, value


def pod_places(path: Path, obj: Mapping[str, Any]) -> list[PodPlace]:
    """The pod that the object is, or its pod templates: what has a ``spec`` with ``containers``, however deep."""
    if obj.get("kind") == "Pod" and _has_containers(obj):
        return [PodPlace(path, obj)]
    found, left = [], [(path, child, key) for key, child in obj.items()]
    while left:
        above, value, step = left.pop()
        here = (*above, step)
        if isinstance(value, dict) and _has_containers(value):
            found.append(PodPlace(here, value))
        elif isinstance(value, dict):
            left += [(here, child, key) for key, child in reversed(value.items())]
        elif isinstance(value, list):
            left += [(here, child, number) for number, child in reversed([*enumerate(value)])]
    return found


def old_names(path: Path, obj: Mapping[str, Any], is_old: Callable[[str], bool]) -> list[OldName]:
    """The keys of the object that name resources of another system, as they are or as quotas name them."""
    found, left = list[OldName](), list[tuple[Path, Any]]([(path, obj)])
    while left:
        here, value = left.pop()
        if isinstance(value, dict):
            wanted = here[-2:-1] == ("resources",) and here[-1] in ("limits", "requests")
            for key, child in value.items():
                if is_old(key.removeprefix("requests.").removeprefix("limits.")):
                    found.append(OldName((*here, key), wanted))
                left.append(((*here, key), child))
        elif isinstance(value, list):
            left += [((*here, number), child) for number, child in enumerate(value)]
    return found


def _has_containers(value: Mapping[str, Any]) -> bool:
    spec = value.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return isinstance(containers, list) and all(isinstance(one, dict) for one in containers) and bool(containers)


def shown(path: Path) -> str:
    """A path as messages have it: ``spec.containers[0].resources.limits[nvidia.com/gpu]``."""
    parts = []
    for step in path:
        if isinstance(step, int) or not re.fullmatch(r"[A-Za-z0-9]+", step):
            parts.append(f"[{step}]")
        else:
            parts.append(f".{step}" if parts else step)
    return "".join(parts)
