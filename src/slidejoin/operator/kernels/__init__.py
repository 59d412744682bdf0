"""Kernels of candidates: conditions on pairs, and which rows have a match."""
