"""The values that expressions compute with, and how they are compared, written and used as keys.

runtime           all values, and what they have in common
addresses         IP addresses and networks
| named_formats   the formats of names, such as ``format.dns1123Label()``
| quantities      quantities, with Kubernetes' two representations
| timestamps      durations and timestamps
urls              URLs as Go parses and writes them
"""
