"""How kernels are compiled, kept on disk and compiled ahead of time."""
