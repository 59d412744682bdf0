"""What was written: expressions as a small tree, from Python and to text and JSON."""
