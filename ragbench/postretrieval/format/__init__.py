"""Operators that write the text for generation, or put the chunks into reading order."""
