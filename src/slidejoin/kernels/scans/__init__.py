"""CellJoin's nested loop and hash buckets."""
