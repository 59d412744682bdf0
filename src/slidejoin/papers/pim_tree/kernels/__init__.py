"""Kernels of the PIM-Tree paper's trees."""
