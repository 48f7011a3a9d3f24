"""Benchmarks: one command each, JSON out, the peers beside us in the same run."""
