"""Providers: one file and one line in PROVIDERS each."""
