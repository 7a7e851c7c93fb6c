"""Operators that put more into the chunks, or beside them."""
