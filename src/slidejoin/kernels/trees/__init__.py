"""The trees of the PIM-Tree paper."""
