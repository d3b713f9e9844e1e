"""Gangs: pods that start together or not at all, inside one domain of the topology. Pure.

``choose`` is the entry: a gang and a snapshot in, a plan or a refusal out.
"""
