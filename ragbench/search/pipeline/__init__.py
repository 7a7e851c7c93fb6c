"""A RAG pipeline from a file: six stages, each by name or a user's class."""
