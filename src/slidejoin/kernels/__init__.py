"""Pure functions on arrays, compiled by Numba: the only loops over rows that slidejoin runs."""
