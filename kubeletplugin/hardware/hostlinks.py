"""Paths of the host without links, where the host's file system is mounted at another place."""

import os
import posixpath
import stat
from pathlib import Path

MOST_LINKS = 40


def resolved(root: str, path: str) -> str:
    """The path without links, as the host sees it: an absolute link leads below the same root.

    Args:
        root: where the host's ``/`` is mounted, without a slash at its end.

    Raises:
        OSError: it does not exist, or there are too many links.
    """
    left = [part for part in path.split("/") if part]
    done, links = "", 0
    while left:
        part = left.pop(0)
        if part in (".", ".."):
            done = done if part == "." else posixpath.dirname(done).rstrip("/")
            continue
        here = f"{done}/{part}"
        seen = f"{root}{here}"
        if stat.S_ISLNK(os.lstat(seen).st_mode):
            if (links := links + 1) > MOST_LINKS:
                raise FileNotFoundError(f"{path}: too many links")
            target = str(Path(seen).readlink())
            left = [part for part in target.split("/") if part] + left
            done = "" if target.startswith("/") else done
        else:
            done = here
    return done or "/"
