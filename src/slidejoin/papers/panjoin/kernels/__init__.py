"""Kernels of PanJoin's RaP-Table and WiB+-tree."""
