"""Settings of configured things: read with every mistake told, built, described."""
