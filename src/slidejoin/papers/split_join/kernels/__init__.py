"""Kernels of a window that is divided among join cores."""
