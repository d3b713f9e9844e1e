"""The part of the controller's settings that decisions about gangs depend on."""

from pathlib import Path

from controller.gangs import Tiers, tiers_from
from driver.errors import OperatorFault
from driver.settings import settings_from


def tiers_in(file: str) -> Tiers:
    """What tiers in PodGroups of Volcano stand for by the settings file; nothing if ``file`` is "".

    Raises:
        OperatorFault: the file cannot be read.
        InvalidInput: it contains no valid settings.
    """
    if not file:
        return {}
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorFault(f"cannot read the settings {file}: {error}") from error
    return tiers_from(settings_from(text, file).controller.volcano_tiers)
