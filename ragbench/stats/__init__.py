"""Statistics: intervals, tests and decisions."""
