"""Embedders: texts to vectors, and what their cosines mean."""
