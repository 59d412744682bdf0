"""Key ranges: comparisons between the sides as ranges of stored keys that can match."""
