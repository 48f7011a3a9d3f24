"""Starts one embedded set on one machine, keeps it running and ends it in order."""
