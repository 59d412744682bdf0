"""Primitives that kernels of several rooms share: vector instructions, memory access, atomics, sorting, doubles."""
