"""Inputs that somebody else may write, made at random: whoever reads them answers or refuses, and serves others.

``make fuzz`` runs it with atheris, guided by coverage. ``tests/unit/fuzz`` replays the seeds, the inputs that once
failed (``found``), and some random ones, without atheris.
"""
