"""Routing: rows to blocks, blocks to buckets."""
