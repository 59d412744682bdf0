"""Kernels of intervals of ordinals."""
