"""Wire formats to and from the neutral types; pure."""
