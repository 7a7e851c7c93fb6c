"""Collections that ragbench did not fill, read as they are."""
