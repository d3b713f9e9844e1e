"""The settings file of both programs: YAML, of a ConfigMap."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from driver.errors import Fault, InvalidInput
from driver.settings import Settings


def settings_in(path: str) -> Settings:
    """The settings in a file; the defaults for "".

    Raises:
        InvalidInput: see ``settings_from``.
        OSError: the file cannot be read.
    """
    return settings_from(Path(path).read_text(), path) if path else Settings()


def settings_from(text: str, source: str = "settings") -> Settings:
    """Settings written in YAML.

    Raises:
        InvalidInput: not YAML, or fields that are unknown or not valid; the operator must change ``source``.
    """
    try:
        raw: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise InvalidInput(source, [Fault("", f"is not valid YAML: {error}")]) from error
    if not isinstance(raw, Mapping):
        raise InvalidInput(source, [Fault("", "must be a mapping of settings")])
    try:
        return Settings.model_validate(raw)
    except ValidationError as error:
        faults = [Fault(".".join(map(str, e["loc"])), f"{e['msg']} (found {e.get('input')!r})") for e in error.errors()]
        raise InvalidInput(source, faults) from error
