"""Kernels that several kinds of index share: views of probes, searches in sorted keys, and matches in two passes."""
