"""Which rows meet where: rows to blocks, blocks to buckets."""
