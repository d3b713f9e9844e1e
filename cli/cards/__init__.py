"""The cards of a node: ``lode cordon``, ``uncordon``, ``drain``, ``reset`` and ``handover``.

handover          the work of ``handover``: takes a node from a device plugin, and gives it back
| draining        the work of ``drain``: evicts the pods that hold a card, and waits for them
work              the work of ``cordon``, ``uncordon`` and ``reset``: reads, decides, writes, prints
reading           reads what the commands need, with the rights of the user
rules             the DeviceTaintRules that take cards out of service
card              the cards of a node, found in its slices by name, index or uuid; who holds a card
| device_plugins  the device plugins of a node, and which label keeps one away
"""
