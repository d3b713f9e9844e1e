"""Running other programs: to their end with a useful error, or in the background until the caller ends."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

Argument = str | Path


class CommandFailed(subprocess.CalledProcessError):
    """A program ended with a status other than 0; the message contains what it printed."""

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

    Raises `CommandFailed` if the status is not 0 and `check` is true. Raises `subprocess.TimeoutExpired` after
    `timeout` seconds; the program is killed then.
    """
    stdin = subprocess.DEVNULL if input is None else None
    done = subprocess.run(
        argv, input=input, stdin=stdin, capture_output=True, text=True, check=False, timeout=timeout, env=environment
    )
    if check and done.returncode:
        raise CommandFailed(done.returncode, done.args, done.stdout, done.stderr)
    return done


def start_process(
    argv: Sequence[Argument], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in the background; its output is appended to `log`.

    The kernel kills the program when the calling thread ends, for whatever reason. This needs `setpriv`; on a machine
    without it, the caller must end the program.
    """
    tied = ["setpriv", "--pdeathsig", "KILL", "--", *argv] if shutil.which("setpriv") else list(argv)
    with log.open("ab") as file:
        # A new session: an interrupt typed at the terminal reaches the caller only, which decides what stops when.
        return subprocess.Popen(
            tied, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, env=environment
        )
