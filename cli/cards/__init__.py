"""The cards of a node: ``lode cordon``, ``uncordon``, ``drain``, ``reset`` and ``handover``.

commands          the options of the five commands
handover          the work of ``handover``: takes a node from a device plugin, and gives it back
| draining        the work of ``drain``: evicts the pods that hold a card, and waits for them
work              the work of ``cordon``, ``uncordon`` and ``reset``: reads, decides, writes, prints
reading           reads what the commands need, with the rights of the user
| manual          what remains to be done by hand to reset a card, by vendor
rules             the DeviceTaintRules that take cards out of service
| evictable       which pods may be evicted, and what that means for their gangs
holders           the claims that hold a card, and the pods that use them
card              the cards of a node, found in its slices by name, index or uuid
| device_plugins  the device plugins of a node, and which label keeps one away
"""
