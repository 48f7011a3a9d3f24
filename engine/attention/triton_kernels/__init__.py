"""Triton kernels over the paged KV pool, imported only where triton is installed.

Legend: R rows of a step, B sequences, H query heads, K KV heads, G = H / K, D head size, S slots, C hidden size. A
pool's `values` are [S, 2K, D] per layer, a token's K keys beside its K values, in fp32, fp16, bf16, int8 or
fp8 e4m3; the two quantised kinds have `scales` fp32 [S, 2K]. Slot = block * block size + offset.

Every kernel gives a row the same bits whatever rows are beside it: no tile or split depends on the batch.
"""
