"""The command line of ragbench."""
