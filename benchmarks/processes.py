"""What the kernel knows about a process that a benchmark has started."""

import os
import socket
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used so far, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> dict[str, float]:
    """The resident memory of a process in MiB: `VmRSS`, and `VmHWM`, which is the most so far."""
    fields = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name.rstrip(":"): int(rest[0]) / 1024 for name, *rest in fields if name in ("VmHWM:", "VmRSS:")}


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
