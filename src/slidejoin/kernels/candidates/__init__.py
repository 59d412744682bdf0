"""From matches of each side to pairs in arrival order."""
