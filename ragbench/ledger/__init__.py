"""What a run knows: its journal, its manifest, its folder, and what identifies a result."""
