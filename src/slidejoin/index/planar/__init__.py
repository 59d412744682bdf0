"""Structures over two dimensions: both ranges of a box are answered at once."""
