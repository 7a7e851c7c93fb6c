"""Calls in this process, in others and on a cluster: one pool over three engines."""
