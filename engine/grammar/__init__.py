"""Output that must follow a grammar: the contract, and one file for the library that keeps it."""
