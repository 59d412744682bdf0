"""Kernels: pure functions on arrays, compiled by Numba. No other code of slidejoin loops over rows."""
