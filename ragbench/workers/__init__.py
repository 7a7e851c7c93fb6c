"""Calls in threads, in processes and on a cluster: one pool over three engines."""
