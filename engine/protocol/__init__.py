"""The OpenAI chat protocol, pure: bodies to values and values to bodies."""
