"""Kernels of `slidejoin.index.planar`."""
