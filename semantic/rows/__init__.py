"""The rows that the index is made from: read by change sequence, vectors written back."""
