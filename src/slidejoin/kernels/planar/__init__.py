"""Kernels of planar runs: rows with two keys, found and counted by a range of each."""
