"""Where the work of a stage runs."""
