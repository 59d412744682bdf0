"""The planar index: rows found by a range of each of two keys, at the cost of what is found."""
