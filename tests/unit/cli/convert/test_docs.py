"""What docs/convert.md shows is what the command prints."""

import re
import shlex
from pathlib import Path

import pytest

from cli.__main__ import main as lode
from tests.unit.docs.consoles import assert_printed, commands
from tests.unit.docs.pages import ROOT

PAGE = (ROOT / "docs" / "convert.md").read_text()
SERVE, BAD = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("serve.yaml").write_text(SERVE)
    Path("bad.yaml").write_text(BAD)
    status = 0
    for command, told in commands(PAGE):
        if command == "echo $?":
            assert told == [f"{status}"]
            continue
        status = lode(["convert", *shlex.split(command)[2:]])
        shown = capsys.readouterr()
        assert_printed(shown.out + shown.err, told)


def test_every_option_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        lode(["convert", "--help"])
    options = set(re.findall(r"(--[a-z-]+)", capsys.readouterr().out)) - {"--help", "--file", "--recursive"}
    assert options == set(re.findall(r"^\| `(--[a-z-]+)", PAGE, re.MULTILINE))
