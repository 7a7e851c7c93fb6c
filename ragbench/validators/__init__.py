"""Validation: is it relevant, is the answer there, where exactly, how good."""
