"""Adopted pods that come and go: how long each takes, and whether a template on demand is left.

measure    runs the pods on a real control plane, and watches them and the templates
scenario   which pods come when, and which templates they name
"""
