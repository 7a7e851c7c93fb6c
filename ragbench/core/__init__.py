"""The frozen records that stages hand to each other; standard library only."""
