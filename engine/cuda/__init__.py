"""The engine on a CUDA device: weights, steps as graphs, transfers, sizes. Imports and tests without one."""
