"""Benchmarks that compare Lode with Kubernetes' own programs in the same run and print a table.

A slow result is reported in the table and does not fail the benchmark.
"""
