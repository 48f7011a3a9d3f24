"""Replays a log of requests in virtual time against cache policies, in this process, calling no model."""
