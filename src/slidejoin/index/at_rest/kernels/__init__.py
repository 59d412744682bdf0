"""Kernels of indexes of tables at rest."""
