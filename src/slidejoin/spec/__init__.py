"""What was asked for: the window, the options of a join, the options of the index structures."""
