"""CellJoin's structures: nested loop and hash buckets."""
