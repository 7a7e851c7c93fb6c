"""Operators that bring in more chunks from the service that the first ones came from."""
