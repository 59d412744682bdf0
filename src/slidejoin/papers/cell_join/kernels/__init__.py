"""Kernels of CellJoin's scans and hash buckets."""
