"""Kernels of an index over several branches of OR."""
