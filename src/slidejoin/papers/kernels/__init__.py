"""Kernels that several papers share: vectors of keys, and keys compared with ranges."""
