"""The texts of admission policies for several allocated drivers, from those for ours alone. Pure.

What a policy says of devices is written in ``manifests`` for one driver: ``result.driver == "lode.dev"``. Where the
controller allocates the devices of other drivers, too, the same is said of all of them.
"""

import json
from collections.abc import Sequence

from driver.names import DEFAULT_DRIVER, pattern_of

_TEST = f'result.driver == "{DEFAULT_DRIVER}"'
_QUOTE = """[\\"']"""
_PATTERN = f"{_QUOTE}{pattern_of(DEFAULT_DRIVER)}{_QUOTE}"
_DEVICES = f"devices of the driver {DEFAULT_DRIVER}"


def for_drivers(text: str, test: str, pattern: str, named: str) -> str:
    """The text of a policy for other drivers than ours alone.

    Args:
        test: what follows ``result.driver`` where the driver of a device is tested.
        pattern: the regular expression for a driver's name in quotes, in place of ours.
        named: the drivers, as messages name them.
    """
    found = text.replace(_TEST, f"result.driver {test}").replace(_DEVICES, f"devices of {named}")
    return found.replace(_PATTERN, f"{_QUOTE}{pattern}{_QUOTE}")


def with_drivers(text: str, also: Sequence[str]) -> str:
    """The text of a policy for the drivers ``also`` beside ours; as it is if there are none."""
    if not also:
        return text
    drivers = (DEFAULT_DRIVER, *also)
    return for_drivers(
        text,
        f"in {json.dumps(drivers, separators=(',', ':'))}",
        f"({'|'.join(map(pattern_of, drivers))})",
        f"the drivers {', '.join(drivers)}",
    )
