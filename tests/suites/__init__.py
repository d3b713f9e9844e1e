"""Suites that others wrote, with Lode installed and without: ``make suites``.

__main__       the command line
running        plays suites on a kind cluster
| kubernetes   Kubernetes' own end-to-end tests, as one program that is built from its module
| accelerators the tests of Kubernetes' AI conformance, from a checkout
outcomes       what the tests of a suite came to, and what differs. Pure.
"""
