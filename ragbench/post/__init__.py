"""Stage 4, post-retrieval: what happens to chunks between retrieval and generation."""
