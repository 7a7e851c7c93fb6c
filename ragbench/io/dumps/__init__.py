"""Retrieval dumps: what a retriever returned, in the form of any store or framework."""
