"""docs/top.md shows what the command prints for the fleet that it describes, and has every subject and column."""

import re
from typing import Any

import pytest

from cli.commands import SUBJECTS as OFFERED
from cli.top import cards, nodes
from cli.top.question import Question
from cli.top.report import rendered
from cli.top.run import SUBJECTS
from driver.kube.api import Object
from tests.unit.cli.cluster import slices
from tests.unit.cli.fleetview.views import NAMES, held, view_of
from tests.unit.docs.consoles import commands
from tests.unit.docs.pages import page

PAGE = page("docs/top.md")
GIB = 1024**3


def shown(command: str) -> list[str]:
    """The lines of the page's console that such a command prints."""
    (found,) = [lines for written, lines in commands(PAGE) if written == command]
    return found


def of_the_page() -> tuple[list[Object], list[Object]]:
    a, b = slices("gpu-1", "a100x4", ib_cluster="ib-1"), slices("gpu-2", "t4x2", ("whole",))
    b[0]["spec"]["devices"][1]["taints"] = [{"key": "lode.dev/unhealthy", "effect": "NoSchedule"}]
    uuids = {part["attributes"]["uuid"]["string"] for one in (*a, *b) for part in one["spec"].get("devices", ())}
    short = {uuid: uuid[:12] for uuid in uuids}
    for one in (*a, *b):
        for device in one["spec"].get("devices", ()):
            device["attributes"]["uuid"]["string"] = short[device["attributes"]["uuid"]["string"]]
    claims = [
        held("train", "gpu-1/gpu-0", "train-0", namespace="team-a"),
        held("notebook", "gpu-1/gpu-1-share", "nb", namespace="team-b", memory=8 * GIB, cores=20),
        held("chat", "gpu-1/gpu-1-share", "chat-7d4", namespace="team-b", memory=16 * GIB, cores=50),
        held("small", "gpu-1/gpu-2-mig-1g-5gb-0", "eval", namespace="team-a"),
    ]
    return [*a, *b], claims


@pytest.mark.parametrize(("subject", "command"), [(nodes, "kubectl lode top nodes"), (cards, "kubectl lode top cards")])
def test_the_tables_of_the_page_are_what_is_printed(subject: Any, command: str) -> None:
    found = subject.report_on(view_of(*of_the_page()), Question(NAMES))
    assert rendered(found, subject.COLUMNS, "table").splitlines() == shown(command)


def test_every_subject_and_column_is_described() -> None:
    assert list(SUBJECTS) == list(OFFERED)
    for name in SUBJECTS:
        assert f"`{name}`" in PAGE, name
    missing = [
        (name, column.header)
        for name, (columns, _) in SUBJECTS.items()
        for column in columns
        if not re.search(rf"(?<![\w-]){re.escape(column.header)}(?![\w-])", PAGE)
    ]
    assert not missing
