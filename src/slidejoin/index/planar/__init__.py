"""The planar index: rows in a range of each of two keys, at a cost that follows from how many these are."""
