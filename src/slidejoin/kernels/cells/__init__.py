"""Kernels of cell tables."""
