"""The engine on a GPU: throughput, decode and prefill against the card's own limits, cached prefixes, peers."""
