"""The texts of admission policies for several allocated drivers, from those for ours alone. Pure.

What a policy says of devices is written in ``manifests`` for one driver: ``result.driver == "lode.dev"``. Where the
controller allocates the devices of other drivers, too, the same is said of all of them.
"""

import json
from collections.abc import Sequence

from driver.names import DEFAULT_DRIVER, pattern_of

_QUOTE = """[\\"']"""


def for_drivers(text: str, test: str, pattern: str, named: str, *, ours: str = DEFAULT_DRIVER) -> str:
    """The text of a policy for other drivers than ours alone.

    Args:
        test: what follows ``result.driver`` where the driver of a device is tested.
        pattern: the regular expression for a driver's name in quotes, in place of ours.
        named: the drivers, as messages name them.
        ours: the name of our driver in the text.
    """
    found = text.replace(f'result.driver == "{ours}"', f"result.driver {test}")
    found = found.replace(f"devices of the driver {ours}", f"devices of {named}")
    return found.replace(f"{_QUOTE}{pattern_of(ours)}{_QUOTE}", f"{_QUOTE}{pattern}{_QUOTE}")


def with_drivers(text: str, ours: str, also: Sequence[str]) -> str:
    """The text of a policy for the drivers ``also`` beside ours; as it is if there are none."""
    if not also:
        return text
    drivers = (ours, *also)
    return for_drivers(
        text,
        f"in {json.dumps(drivers, separators=(',', ':'))}",
        f"({'|'.join(map(pattern_of, drivers))})",
        f"the drivers {', '.join(drivers)}",
        ours=ours,
    )
