"""The guides for Volcano, for Ascend NPUs and for NVIDIA's DRA driver, as they are written."""

from pathlib import Path

import pytest

from driver.kube.api import DEVICE_CLASSES
from tests.contract.conftest import eventually
from tests.contract.migrating import BACK, GUIDES, SYSTEMS, follow_there_and_back, migration_along

pytestmark = pytest.mark.timeout(600)


def test_every_guide_is_followed_here() -> None:
    assert {file.stem for file in GUIDES.glob("*.md")} == set(SYSTEMS)


@pytest.mark.parametrize("guide", ["volcano", "ascend"])
def test_a_guide_leads_from_a_device_plugin_to_claims_and_back_and_to_its_end(guide: str, tmp_path: Path) -> None:
    with migration_along(guide, tmp_path) as migration:
        follow_there_and_back(migration)


def test_a_guide_leads_from_nvidias_dra_driver_to_the_same_claims_here(tmp_path: Path) -> None:
    with migration_along("nvidia-dra-driver", tmp_path) as migration:
        eventually(lambda: migration.devices() == ["gpu.nvidia.com gpu-0"], 60)
        assert "nothing to change" in migration.follow("1.")
        migration.start_when_installed()
        assert "the DRA driver gpu.nvidia.com publishes devices" in migration.follow("2.")
        migration.follow("3.")
        assert migration.devices() == []
        migration.start_controller(nvidiaDraNames=True)
        migration.follow("4.")
        assert migration.devices() == ["lode.dev gpu-0"]
        migration.follow(BACK)
        assert not migration.api.list(DEVICE_CLASSES, field_selector="metadata.name=gpu.nvidia.com").items
