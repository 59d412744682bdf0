"""Which stored keys can match: comparisons between the sides as ranges."""
