"""Primitives that several kernel packages share: vector instructions, memory access, atomics, sorting."""
