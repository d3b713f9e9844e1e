"""One device more is wanted than there is."""

from dataclasses import replace

from driver.model import Want
from tests.hard_searches.parts import DRIVER, GPU, NIC, Family, claim, claims, devices, family, spread


def count_plus_one(n: int) -> Family:
    """One request of n + 1 out of n alike (n at most 31)."""
    return family(devices("gpu", n), [claim(replace(GPU, count=n + 1))])


def many_requests(n: int) -> Family:
    """n + 1 requests of one out of n alike."""
    return family(devices("gpu", n), spread([GPU] * (n + 1)))


def many_unlike(n: int) -> Family:
    """The same, and each request rules one device out, so that no two are alike."""
    others = [Want("gpu", selectors=(f'device.attributes["{DRIVER}"].index != {i}',)) for i in range(n + 1)]
    return family(devices("gpu", n, {"index": lambda i: i}), spread(others))


def gpus_plus_missing_nic(n: int) -> Family:
    """n cards of n, and then a card of a kind that is there, but wanted once too often."""
    return family(devices("gpu", n) + devices("nic", 1), spread([*[GPU] * n, NIC, NIC]))


def many_claims(n: int) -> Family:
    """n + 1 claims of one out of n alike."""
    return family(devices("gpu", n), claims(n + 1, GPU))


def first_available(n: int) -> Family:
    """n + 1 requests with three alternatives each, all the same n devices."""
    return family(devices("gpu", n), spread([(GPU, GPU, GPU)] * (n + 1)))
