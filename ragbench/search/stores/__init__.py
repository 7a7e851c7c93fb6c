"""Vector stores: chunks with their vectors, found by similarity and filtered by metadata."""
