"""Compiles a fake library once for each content of its sources."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

import pytest

FLAGS = ("-shared", "-fPIC", "-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-pthread")


def built(folder: Path, name: str, without: Collection[str] = ()) -> Path:
    """The library made of the C files in ``folder`` and beside this file; skips the test if there is no C compiler.

    It is kept in the folder for temporary files under a name made of its content, for every later process.

    Args:
        name: of the file, such as ``libnvidia-ml.so.1``.
        without: symbols that the library does not export, as that of an older driver.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    sources = [*sorted(Path(__file__).parent.glob("*.[ch]")), *sorted(folder.glob("*.[ch]"))]
    hidden = "".join(f" {symbol};" for symbol in sorted(without))
    exports = f"{{ global: *;{f' local:{hidden}' if hidden else ''} }};\n"
    content = b"\0".join([" ".join(FLAGS).encode(), exports.encode(), *(source.read_bytes() for source in sources)])
    digest = hashlib.sha256(content).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"lode-fakes-{os.getuid()}" / digest / name
    if not library.exists():
        _compile(compiler, [source for source in sources if source.suffix == ".c"], exports, library)
    return library


def _compile(compiler: str, sources: list[Path], exports: str, library: Path) -> None:
    library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Several test processes may build it at once: each in a folder of its own, and any of the results stays.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        script, own = Path(folder) / "exports.map", Path(folder) / library.name
        script.write_text(exports)
        options = [f"-I{Path(__file__).parent}", f"-Wl,--version-script={script}", "-o", str(own)]
        subprocess.run([compiler, *FLAGS, *options, *map(str, sources)], check=True)
        own.replace(library)
