"""Kernels of predicates: exact bounds of ranges, hashes of text, conditions on pairs."""
