"""Operators that make the chunks shorter."""
