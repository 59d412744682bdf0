"""How kernels are compiled, cached on disk, compiled ahead of time, and run as plain Python meanwhile."""
