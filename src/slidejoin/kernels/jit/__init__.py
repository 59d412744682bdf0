"""How kernels are compiled, cached on disk and compiled ahead of time."""
