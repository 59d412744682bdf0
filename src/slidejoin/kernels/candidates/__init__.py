"""From the matches of both sides to pairs in arrival order."""
