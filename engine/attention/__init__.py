"""Attention over the paged KV pool."""
