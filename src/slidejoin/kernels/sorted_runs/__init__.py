"""Kernels of sorted runs."""
