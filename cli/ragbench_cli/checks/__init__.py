"""What ``ragbench doctor`` looks at."""
