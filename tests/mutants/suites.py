"""Which tests have to notice a change, by the folder of the changed file. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

_HISTORIES: Final = "tests/system/test_histories.py"
_PREEMPTION: Final = "tests/system/test_preemption_histories.py"
_DECIDING: Final = (
    "state policies reconcile gangs placement election writing reporting waiting worker kueue templates autoscaling"
    " loop"
).split()
_CONTROLLER: Final = tuple(f"tests/unit/controller/{name}" for name in _DECIDING)
SUITES: Final[Mapping[str, Sequence[str]]] = {
    "controller": (*_CONTROLLER, "tests/system/test_double_allocation.py", _HISTORIES),
    "controller/allocation": (
        "tests/unit/controller/allocation",
        "tests/unit/controller/reconcile",
        "tests/unit/controller/gangs",
    ),
    "controller/placement": ("tests/unit/controller/placement", *_CONTROLLER),
    "controller/preemption": ("tests/unit/controller/preemption", _PREEMPTION),
    "controller/preemption/worker.py": ("tests/unit/controller/loop", _PREEMPTION),
    "controller/preemption/evictions.py": (
        "tests/unit/controller/preemption",
        "tests/unit/controller/loop",
        _PREEMPTION,
    ),
    "controller/reconcile/demand.py": (*_CONTROLLER, _HISTORIES, _PREEMPTION),
    "controller/state/kept_places.py": ("tests/unit/controller/loop", _PREEMPTION),
    "kubeletplugin": ("tests/unit/kubeletplugin",),
    "kubeletplugin/prepare": ("tests/unit/kubeletplugin/prepare", "tests/system/test_death_at_every_call.py"),
    "kubeletplugin/publish": ("tests/unit/kubeletplugin/publish", _HISTORIES),
    "driver": ("tests/unit/driver", "tests/unit/kubeletplugin/test_main.py"),
    "driver/cel": ("tests/unit/driver/cel",),
    "driver/disk.py": ("tests/unit/driver/test_files.py", "tests/unit/kubeletplugin/prepare"),
    "driver/files.py": ("tests/unit/driver/test_files.py", "tests/unit/kubeletplugin/prepare"),
    "driver/kube": ("tests/unit/driver/kube",),
    "driver/wire": ("tests/unit/driver", "tests/unit/controller/state", "tests/unit/kubeletplugin"),
}
"""Tests by the prefix of a path; the longest prefix counts. The quick ones come first."""


def suite_of(path: str) -> tuple[str, ...]:
    """The tests that have to notice a change of the file ``path`` (relative to the root of the repository)."""
    prefixes = [prefix for prefix in SUITES if path == prefix or path.startswith(f"{prefix}/")]
    if not prefixes:
        raise KeyError(f"{path}: no tests are listed for it in SUITES")
    return tuple(dict.fromkeys(SUITES[max(prefixes, key=len)]))
