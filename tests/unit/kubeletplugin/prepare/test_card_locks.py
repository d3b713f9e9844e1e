"""The lock of a card is a file of the plugin's folder, whatever the card is called."""

from pathlib import Path

import pytest

from driver.files import SystemFiles
from driver.settings import Settings
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory


def locks_of(root: Path, *uuids: str) -> list[str]:
    """What is in the plugin's folder while the locks of these cards are held."""
    settings = Settings.model_validate({"kubeletplugin": {"kubeletRoot": str(root)}})
    folder = Path(plugin_directory(settings))
    folder.mkdir(parents=True)
    with ClaimStorage(SystemFiles(), settings).card_locks(uuids):
        return sorted(str(path.relative_to(folder)) for path in root.rglob("*.lock"))


@pytest.mark.parametrize(
    "uuid",
    [
        "amd.com/gpu/0000:18:00.0",
        "example.com/card/../../../../../etc/cron.d/x",
        "..",
        f"example.com/card/{'x' * 253}",
    ],
)
def test_a_card_of_any_name_has_a_lock_of_its_own_in_the_folder(tmp_path: Path, uuid: str) -> None:
    locks = locks_of(tmp_path, uuid, f"{uuid}-other")
    assert len(locks) == 2
    assert all(lock.startswith("card-") and "/" not in lock for lock in locks)


def test_the_locks_of_other_cards_have_their_names(tmp_path: Path) -> None:
    assert locks_of(tmp_path, "GPU-7f5f00a9-444e") == ["card-GPU-7f5f00a9-444e.lock"]
