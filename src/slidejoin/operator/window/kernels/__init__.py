"""Kernels of the rows of a window that have the latest time."""
