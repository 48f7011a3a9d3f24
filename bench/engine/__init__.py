"""The engine beside its peers on the same weights, in one run: `python -m bench.engine`."""
