"""The embedded engine: an OpenAI-protocol server over a paged KV cache; knows nothing of the gateway."""
