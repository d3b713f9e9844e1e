"""Running other programs: one call that says what went wrong, and children that do not outlive us."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

Argument = str | Path


class CommandFailed(subprocess.CalledProcessError):
    """A program ended with another status than 0; the message has what it printed."""

    def __str__(self) -> str:
        printed = "\n".join(_shortened(text.strip()) for text in (self.stdout, self.stderr) if text and text.strip())
        command = " ".join(map(str, self.cmd)) if isinstance(self.cmd, Sequence) else str(self.cmd)
        return f"{command}: status {self.returncode}\n{printed}"


def _shortened(text: str, start: int = 2000, end: int = 3000) -> str:
    return text if len(text) <= start + end else f"{text[:start]}\n[...]\n{text[-end:]}"


def run(
    argv: Sequence[Argument],
    *,
    input: str | None = None,
    check: bool = True,
    timeout: float | None = 60.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its status and output.

    Raises `CommandFailed` unless it ends with status 0 or `check` is false, and `subprocess.TimeoutExpired` after
    `timeout` seconds (the program is killed then).
    """
    feed = subprocess.DEVNULL if input is None else None
    done = subprocess.run(
        argv, input=input, stdin=feed, capture_output=True, text=True, check=False, timeout=timeout, env=environment
    )
    if check and done.returncode:
        raise CommandFailed(done.returncode, done.args, done.stdout, done.stderr)
    return done


def start(argv: Sequence[Argument], log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a program whose output is appended to `log`, and which the kernel kills when the calling thread ends.

    That holds however the thread comes to its end. Where the machine has no `setpriv`, nothing looks after it but the
    caller.
    """
    tied = ["setpriv", "--pdeathsig", "KILL", "--", *argv] if shutil.which("setpriv") else list(argv)
    with log.open("ab") as file:
        # A session of its own: an interrupt typed at the terminal is for us, and we decide who stops when.
        return subprocess.Popen(
            tied, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, env=environment
        )
