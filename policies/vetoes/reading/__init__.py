"""Reading: from a text to its facts, in one pass over a bounded number of characters."""
