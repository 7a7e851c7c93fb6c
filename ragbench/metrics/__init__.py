"""Metrics: what they measure, which cases they apply to, and how scores become summaries."""
