"""The functions that selectors may call, as Kubernetes implements them: one module for each type of argument.

functions      the table of all functions
collections    lists, sets and maps
| formatting   ``format``
| network      IP addresses, networks, URLs and named formats
| timestamps   durations and timestamps
| versions     quantities and semantic versions
strings        strings and regular expressions
"""
