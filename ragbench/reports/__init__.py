"""A report's rendered forms, one file a form."""
