"""Operators that leave chunks out."""
