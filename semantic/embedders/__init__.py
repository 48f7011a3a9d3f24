"""Embedders: texts as unit vectors, by kind of model."""
