"""Memory that was freed goes back to the kernel."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
from pathlib import Path
from driver.memory import give_back

def resident():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line)

kept = []
for _ in range(60_000):
    kept.append(bytes(1000))
    bytes(1000)
held = kept[::50]
del kept
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library gives memory back by itself, or never")
def test_what_is_free_between_what_is_used_is_given_back() -> None:
    command = [sys.executable, "-c", PROGRAM]
    given = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert given > 20_000
