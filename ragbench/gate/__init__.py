"""Decides whether a run may pass: absolute limits, and losses against a baseline."""
