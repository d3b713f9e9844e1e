"""The work of ``lode convert``: read, convert, print or write."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cli.convert.adopting import Conversion, sources_with
from cli.convert.converting import ConvertedFile, convert_file, objects_of
from cli.convert.edits import read_back
from cli.convert.templates import TemplateNames
from cli.exitcodes import FAILED
from cli.objects.documents import Documents, read_texts
from driver.adoption import PLAIN
from driver.errors import OperatorFault
from driver.files import SystemFiles
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES
from driver.names import Names
from driver.yaml_values import InvalidDocument

DONE: Final = 0
WOULD_CHANGE: Final = 1


def run(arguments: argparse.Namespace) -> int:
    """Convert as the command's arguments say; the exit status."""
    if arguments.write and "-" in arguments.file:
        raise OperatorFault("--write needs files; leave it out to print what standard input becomes")
    conversion = _conversion(arguments)
    unread = Documents()
    texts = read_texts(arguments.file, sys.stdin, unread, recursive=arguments.recursive)
    files = _converted(texts, conversion)
    faults = [*map(str, unread.faults), *(str(fault) for file in files for fault in file.faults)]
    for note in (note for file in files for note in file.notes):
        sys.stderr.write(f"note: {note}\n")
    if faults:
        sys.stderr.write("\n".join(faults) + "\n")
        return FAILED
    changed = [file for file in files if file.changed]
    if arguments.check:
        for file in changed:
            print(f"{_shown(file)}: would change")
        return WOULD_CHANGE if changed else DONE
    if arguments.write:
        return _write(changed)
    sys.stdout.write(_joined(files))
    return DONE


def _conversion(arguments: argparse.Namespace) -> Conversion:
    """Raises OperatorFault: an entry of ``--plain`` is not valid."""
    plain: dict[str, str] = {}
    for entry in arguments.plain:
        resource, _, device_class = entry.partition("=")
        if not re.fullmatch(r"[a-z0-9.-]+/[A-Za-z0-9._-]+", resource) or not re.fullmatch(r"[a-z0-9.-]+", device_class):
            raise OperatorFault(f"--plain {entry}: must be RESOURCE=CLASS, such as example.com/fpga=fpga.example.com")
        plain[resource] = device_class
    every = sources_with(plain)
    chosen = bool(arguments.source)
    sources = {name: every[name] for name in every if not chosen or name == PLAIN or name in arguments.source}
    return Conversion(sources, Names(arguments.driver), chosen, arguments.on_demand)


def _converted(texts: Mapping[str, str], conversion: Conversion) -> list[ConvertedFile]:
    """Templates have names of their own among the files of one folder, which people apply together."""
    taken: dict[str, TemplateNames] = {}
    for name, text in texts.items():
        _take_names(text, taken.setdefault(_folder(name), TemplateNames()))
    return [convert_file(name, text, conversion, taken[_folder(name)]) for name, text in texts.items()]


def _folder(name: str) -> str:
    return str(Path(name).parent)


def _take_names(text: str, taken: TemplateNames) -> None:
    # What cannot be read is told when the file is converted.
    with suppress(InvalidDocument):
        for document in read_back(text):
            for _, obj in objects_of(document):
                metadata = obj.get("metadata")
                if obj.get("kind") == RESOURCE_CLAIM_TEMPLATES.kind and isinstance(metadata, dict):
                    taken.take(str(metadata.get("namespace") or ""), str(metadata.get("name")))


def _write(changed: Sequence[ConvertedFile]) -> int:
    """Write the files, each at once, and say which; one that cannot be written is told, and the others are written."""
    files, status = SystemFiles(), DONE
    for file in changed:
        path = Path(file.file).resolve()
        try:
            mode = path.stat().st_mode
            files.write(str(path), file.text.encode())
            path.chmod(mode)
        except OSError as error:
            sys.stderr.write(f"{file.file}: cannot be written: {error.strerror or error}; call the command again\n")
            status = FAILED
        else:
            print(f"{file.file}: changed")
    return status


def _joined(files: Sequence[ConvertedFile]) -> str:
    """All files as one stream of documents."""
    parts: list[str] = []
    for file in files:
        if parts and not file.text.startswith("---"):
            parts.append("---\n")
        parts.append(file.text if file.text.endswith("\n") or len(files) == 1 else f"{file.text}\n")
    return "".join(parts)


def _shown(file: ConvertedFile) -> str:
    return "standard input" if file.file == "-" else file.file
