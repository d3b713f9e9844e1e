"""The text of a file with claims for resources of other systems, wherever pods are; or what keeps it from that."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cli.convert.adopting import Conversion, adopted
from cli.convert.edits import CannotEdit, TextEdits, TextPart, parts_of, read_back, written
from cli.convert.nodes import line_of
from cli.convert.templates import OwnTemplates, TemplateNames
from cli.objects.expand import SENSELESS
from driver.errors import Fault, InvalidInput
from driver.yaml_values import InvalidDocument

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


_VOLCANO_JOBS: Final = "batch.volcano.sh/"
_NO_POD: Final = "is in no pod template that is known here: move it into one, or write a claim"
_COUNTS_NOTHING: Final = "counts nothing once pods have claims: limit claims instead (docs/quotas.md)"
_DEMANDS: Final = "still demands it of pods, or gives it to them, which have claims now: remove it"
_FORM: Final = "cannot be changed in this form: write it without anchors, tags and comments between brackets"


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """Something about a line of a file, in the form in which editors and CI find it."""

    file: str
    line: int
    subject: str
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{'standard input' if self.file == '-' else self.file}:{self.line}"
        return ": ".join(part for part in (where, self.subject, self.field, self.message) if part)


@dataclass(slots=True)
class ConvertedFile:
    """A file and what became of it.

    Attributes:
        before: the text as it was read.
        text: the text with claims; as it was if there are faults.
    """

    file: str
    before: str
    text: str
    faults: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was converted."""
        return self.text != self.before


def convert_file(file: str, text: str, conversion: Conversion, taken: TemplateNames) -> ConvertedFile:
    """Convert the text of one file.

    Args:
        taken: names of templates that others have; those that are made here are added.
    """
    done = ConvertedFile(file, text, text)
    try:
        ended = text if text.endswith("\n") else f"{text}\n"
        parts = [_Part(part, done, conversion, taken) for part in parts_of(ended)]
    except InvalidDocument as error:
        done.faults.append(Remark(file, error.line, "", "", str(error)))
        return done
    for one in parts:
        one.convert()
    if not done.faults and any(one.values for one in parts):
        new = written([(one.part, one.edits, one.made) for one in parts])
        if _says(new, [value for one in parts for value in one.expected()]):
            done.text = new
        else:
            done.faults.append(Remark(file, 1, "", "", _FORM))
    done.faults.sort()
    done.notes.sort()
    return done


def _says(text: str, expected: list[Any]) -> bool:
    """Whether the text is read as these documents: what is written was never only hoped for."""
    try:
        return read_back(text) == expected
    except InvalidDocument:
        return False


class _Part:
    """The conversion of one document of a file.

    Attributes:
        values: what is changed, with its path.
        made: new templates, with the lines that they stand for.
    """

    def __init__(self, part: TextPart, done: ConvertedFile, conversion: Conversion, taken: TemplateNames):
        self.part = part
        self.edits = TextEdits(part.text, part.document.aliased)
        self.values: list[tuple[Path, Any]] = []
        self.made: list[tuple[Mapping[str, Any], list[str]]] = []
        self._done = done
        self._conversion = conversion
        self._taken = taken

    def expected(self) -> Iterator[Any]:
        """The documents that the text must be read as."""
        value = self.part.document.value
        for path, new in self.values:
            value = _replaced(value, path, new)
        if value is not None:
            yield value
        for template, _ in self.made:
            yield template

    def convert(self) -> None:
        """Convert the objects of the document."""
        for path, obj in objects_of(self.part.document.value):
            try:
                self._object(path, obj)
            except SENSELESS as error:
                message = f"cannot be read as a {obj.get('kind') or 'Kubernetes object'}: {error!r}; correct it first"
                self._tell(self._done.faults, obj, path, Fault("", message))

    def _object(self, path: Path, obj: Mapping[str, Any]) -> None:
        places, own = pod_places(path, obj), OwnTemplates(obj, self._conversion.names, self._taken)
        for place in places:
            self._place(obj, path, place, own)
        if obj.get("kind") == "Node":
            return
        for name in old_names(path, obj, self._conversion.is_old):
            if any(name.path[: len(place.path)] == place.path for place in places):
                continue
            where = shown(name.path[len(path) :])
            if name.wanted:
                self._tell(self._done.faults, obj, path, Fault(where, _NO_POD))
            elif "annotations" not in name.path and "labels" not in name.path:
                message = _DEMANDS if obj.get("kind") == "LimitRange" else _COUNTS_NOTHING
                self._tell(self._done.notes, obj, path, Fault(where, message))

    def _place(self, obj: Mapping[str, Any], above: Path, place: PodPlace, own: OwnTemplates) -> None:
        found, inside = adopted(_scheduled(place.pod, obj), self._conversion), shown(place.path[len(above) :])
        try:
            pod, made = own.give(found.pod, found.templates, self._conversion.on_demand)
        except InvalidInput as error:
            found.faults += [Fault("spec.containers", fault.message) for fault in error.faults]
        for told, remarks in ((self._done.faults, found.faults), (self._done.notes, found.notes)):
            for remark in remarks:
                field_name = ".".join(filter(None, (inside, remark.field)))
                self._tell(told, obj, above, Fault(field_name, remark.message))
        if not found.faults and found.changed:
            lines = self._write(obj, place, pod)
            self.values.append((place.path, pod))
            self.made += [(template, lines if template is made[0] else []) for template in made]

    def _write(self, obj: Mapping[str, Any], place: PodPlace, new: Mapping[str, Any]) -> list[str]:
        """Change the pod in the text, and return the lines that were taken out."""
        assert self.part.document.node is not None
        before = len(self.edits.taken)
        try:
            self.edits.change_at(self.part.document.node, place.path, place.pod, new)
        except CannotEdit as error:
            line = self.part.line(error.line)
            self._done.faults.append(Remark(self._done.file, line, subject_of(obj), "", str(error)))
        return [
            line for line in self.edits.taken[before:] if not re.fullmatch(r"limits:|requests:|schedulerName:.*", line)
        ]

    def _tell(self, told: list[Remark], obj: Mapping[str, Any], above: Path, fault: Fault) -> None:
        node = self.part.document.node
        assert node is not None
        line = self.part.line(line_of(node.at(above), fault.field))
        remark = Remark(self._done.file, line, subject_of(obj), fault.field, fault.message)
        if remark not in told:
            told.append(remark)


def subject_of(obj: Mapping[str, Any]) -> str:
    """``Pod default/train``, as far as the object says it."""
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    named = "/".join(str(it) for it in (metadata.get("namespace"), metadata.get("name")) if it)
    return f"{obj.get('kind') or 'object'} {named}".strip()


def _scheduled(pod: Mapping[str, Any], obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod template with the scheduler that its pods get from the job, where the template names none."""
    spec, above = pod["spec"], obj.get("spec")
    volcano = str(obj.get("apiVersion")).startswith(_VOLCANO_JOBS)
    scheduler = above.get("schedulerName") if isinstance(above, dict) and above is not spec else None
    scheduler = scheduler or ("volcano" if volcano else None)
    return {**pod, "spec": {**spec, "schedulerName": scheduler}} if scheduler and "schedulerName" not in spec else pod


def _replaced(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    copied: Any = dict(value) if isinstance(value, dict) else list(value)
    copied[step] = _replaced(copied[step], rest, new)
    return copied
