"""The frozen records that stages hand to each other; of packages msgspec only."""
