"""The semantic service: its own process that embeds, searches, vetoes and verifies; knows no gateway."""
