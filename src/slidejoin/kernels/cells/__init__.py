"""Tables of cells."""
