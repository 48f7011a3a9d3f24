"""Invalidation: the purge log is the truth; Redis mirrors its sequence; every worker judges by its replica."""
