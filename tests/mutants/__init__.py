"""Small changes made on purpose, to see whether a test fails: ``make mutants``.

operators.py    changes that are derived from the source: a negated condition, a dropped statement ...
written.yaml    changes written by hand, each at a place where a defect once went unnoticed
undone.yaml     changes written by hand, each of which undoes the mend of a defect
suites.py       which tests have to notice a change, by the folder of the changed file
reach.py        which tests run the changed lines: only these can notice it, and the quick ones are tried first
plugin.py       what pytest does for that
alone.py        which of the changes written by hand the seeded histories notice by themselves
trial.py        one change, made in a copy of the tree, and the tests run on it
survivors.yaml  changes that no test has to notice, with the reason
"""
