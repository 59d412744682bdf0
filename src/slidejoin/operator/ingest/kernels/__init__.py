"""Kernels of arrival order and clocks."""
