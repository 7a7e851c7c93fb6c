"""The stages of an evaluation and the loop that runs them."""
