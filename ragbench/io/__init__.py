"""Reading and writing files: one module a format, both directions."""
