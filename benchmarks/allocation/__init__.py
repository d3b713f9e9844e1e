"""The allocator compared with Kubernetes' own, on the same input in the same run.

`python -m benchmarks.allocation` prints the tables. `workloads` defines what is measured, and `scenario` writes it as
API objects, which `ours` and the Go program in `peer/` read. `checks` verifies our answers.
"""
