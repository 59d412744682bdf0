"""Hash tables of cells as wide as the band."""
