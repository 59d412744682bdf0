"""Kernels of `slidejoin.index.po_join`."""
