"""Kernels of keys: closed ranges, and several columns in one key."""
