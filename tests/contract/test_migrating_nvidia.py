"""The guides for NVIDIA's device plugin and for HAMi, as they are written."""

from pathlib import Path

import pytest

from tests.contract.migrating import follow_there_and_back, migration_along

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("guide", ["nvidia-device-plugin", "hami"])
def test_a_guide_leads_from_a_device_plugin_to_claims_and_back_and_to_its_end(guide: str, tmp_path: Path) -> None:
    with migration_along(guide, tmp_path) as migration:
        follow_there_and_back(migration)
