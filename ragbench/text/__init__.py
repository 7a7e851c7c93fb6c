"""Text, cut into tokens and sentences the same way wherever ragbench needs it."""
