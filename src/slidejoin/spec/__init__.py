"""The specification of a join, as requested: its window, its options, the options of the index structures."""
