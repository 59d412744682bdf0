"""Kernels of SPO-Join's permuted arrays."""
