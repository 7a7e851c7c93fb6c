"""A run from its first case to its report: the only package that knows all stages."""
