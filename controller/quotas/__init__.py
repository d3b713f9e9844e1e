"""Quotas of namespaces in memory and cores of cards: what each allows, and what allocations take of it. Pure.

A quota is an ordinary ResourceQuota with names of our domain in ``spec.hard``: ``<driver>/memory`` in bytes and
``<driver>/cores`` in percent of a card, and both for one type of card (``<driver>/memory.<type>``). A namespace without
such a quota has no limit, and costs nothing.

ledger      the quotas of each namespace, and what its claims take
limits      what a ResourceQuota limits, and what an allocation takes of it
"""

from controller.quotas.ledger import KeptChange, QuotaLedger, QuotaUse, Unusable, amount_text
from controller.quotas.limits import MEASURES, WHOLE_CARD, Quota, quota_from, taken, unreadable_quota

__all__ = [
    "MEASURES",
    "WHOLE_CARD",
    "KeptChange",
    "Quota",
    "QuotaLedger",
    "QuotaUse",
    "Unusable",
    "amount_text",
    "quota_from",
    "taken",
    "unreadable_quota",
]
