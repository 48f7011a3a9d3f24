"""The KV cache as books: blocks, prefixes, retention, tiers. Plain integers and bytes, no tensors."""
