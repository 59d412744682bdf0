"""Kernels of planar runs: rows with two keys, searched and counted by a range of each."""
