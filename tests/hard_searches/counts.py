"""Claims that request one device more than there is."""

from dataclasses import replace

from driver.model import Want
from tests.hard_searches.builders import DRIVER, GPU, NIC, HardSearch, claim, claims, devices, hard_search, spread


def count_plus_one(n: int) -> HardSearch:
    """One request for n + 1 of n equal devices (n at most 31)."""
    return hard_search(devices("gpu", n), [claim(replace(GPU, count=n + 1))])


def many_requests(n: int) -> HardSearch:
    """n + 1 requests for one of n equal devices each."""
    return hard_search(devices("gpu", n), spread([GPU] * (n + 1)))


def many_unlike(n: int) -> HardSearch:
    """As ``many_requests``, but each request excludes another device, so that no two requests are equal."""
    others = [Want("gpu", selectors=(f'device.attributes["{DRIVER}"].index != {i}',)) for i in range(n + 1)]
    return hard_search(devices("gpu", n, {"index": lambda i: i}), spread(others))


def gpus_plus_missing_nic(n: int) -> HardSearch:
    """All n cards, and then two NICs although there is only one."""
    return hard_search(devices("gpu", n) + devices("nic", 1), spread([*[GPU] * n, NIC, NIC]))


def many_claims(n: int) -> HardSearch:
    """n + 1 claims for one of n equal devices each."""
    return hard_search(devices("gpu", n), claims(n + 1, GPU))


def first_available(n: int) -> HardSearch:
    """n + 1 requests with three alternatives each, all for the same n devices."""
    return hard_search(devices("gpu", n), spread([(GPU, GPU, GPU)] * (n + 1)))
