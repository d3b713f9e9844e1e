"""`python -m charts`: write what is generated of the manifests and of the chart, and remove what no longer is."""

import shutil

from charts import monitoring
from charts.adoption import FOLDER
from charts.adoption import files as adoption_files
from charts.board import BOARD, board_text
from charts.generate import CHART, GENERATED, MANIFESTS, generated


def main() -> None:
    """Write the files."""
    shutil.rmtree(MANIFESTS / FOLDER, ignore_errors=True)
    for name, content in {**adoption_files(), **monitoring.files(), BOARD: board_text()}.items():
        path = MANIFESTS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        print(path.relative_to(MANIFESTS.parent))
    files = generated()
    for folder in GENERATED:
        for old in sorted((CHART / folder).glob("*")):
            if str(old.relative_to(CHART)) not in files:
                old.unlink()
    for name, content in files.items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        print(path.relative_to(CHART.parent))


main()
