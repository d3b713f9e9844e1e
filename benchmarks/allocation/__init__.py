"""The allocator beside Kubernetes' own, on the same input in the same run.

`python -m benchmarks.allocation` prints one table. `workloads` says what is measured, `scenario` writes it down as API
objects, which `ours` and the Go program in `peer/` read; `checks` judges what ours answered.
"""
