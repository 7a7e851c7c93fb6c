"""Stage 2 of a pipeline: from a question to what is searched for."""
