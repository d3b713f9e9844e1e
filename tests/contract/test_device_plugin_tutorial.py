"""The tutorial of device plugins, as it is written: from a vendor's DaemonSet to the first claim."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.contract.bridging import IDS, cluster
from tests.contract.conftest import eventually
from tests.contract.tutorials import BRIDGED, ROOT

pytestmark = pytest.mark.timeout(400)

PAGE = ROOT / "docs/tutorials" / BRIDGED
MOST_STEPS = 10


def test_a_tutorial_of_ten_steps_at_most_ends_with_a_claim_that_the_plugin_was_asked_for(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert len(re.findall(r"^## \d+\. ", text, re.MULTILINE)) <= MOST_STEPS
    # The paths of sockets have to be short.
    with TemporaryDirectory(prefix="lode-") as place, cluster(tmp_path, Path(place)) as (reader, node):
        assert reader.follow(text) > 5
        eventually(lambda: all(name.startswith("amd-device-plugin-") for name in reader.left()), 60)
        assert node.vendors
        assert [call.ids for call in node.vendors.called("Allocate")] == [(IDS[0],)]
