"""How results are shown: Markdown, JSON, CSV, JUnit and plain text."""
