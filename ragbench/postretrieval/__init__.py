"""Stage 4: what happens to chunks between retrieval and generation."""
