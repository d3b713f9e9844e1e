"""The page about CEL says what is so: its example runs on the files that it names, and its table has every function."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import driver
from driver.cel.language.environment import FUNCTIONS
from driver.cel.language.macros import MACROS
from tests.recorded_selectors import WITH_COSTS, recorded

DRIVER = Path(driver.__file__).parent
PAGE = (DRIVER / "cel" / "README.md").read_text()
AUTHORIZER = "kubernetes.authorization"


def test_the_example_runs_on_a_copy_of_the_files_that_the_page_names(tmp_path: Path) -> None:
    (copied,) = re.findall(r"copy this folder and (.*?)\s+of `driver`", PAGE, re.DOTALL)
    shutil.copytree(DRIVER / "cel", tmp_path / "driver" / "cel")
    for name in re.findall(r"`(\w+\.py)`", copied):
        shutil.copy(DRIVER / name, tmp_path / "driver" / name)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-c", f"{example}\nimport driver.cel.estimation; print(driver.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == str(tmp_path / "driver" / "__init__.py")


def test_the_table_has_every_macro_and_function_that_a_selector_can_use() -> None:
    rows = dict(re.findall(r"^\| ([a-zA-Z ]+) \| (`.*) \|$", PAGE, re.MULTILINE))
    macros = re.findall(r"`([^`]+)`", rows.pop("macros"))
    functions = re.findall(r"`([^`]+)`", " ".join(rows.values()))
    usable = {
        name
        for name, overloads in FUNCTIONS.items()
        if name[0].isalpha() and not any(type_.kind.startswith(AUTHORIZER) for type_ in overloads[0].args[:1])
    }
    assert set(macros) == MACROS
    assert sorted(functions) == sorted(usable)


def test_the_page_counts_the_recorded_answers() -> None:
    with_costs = sum(len(list(recorded(file))) for file in WITH_COSTS)
    assert f"{with_costs:,}" in PAGE
    assert f"{with_costs + len(list(recorded('libraries'))):,} expressions" in PAGE
