"""Vector instructions, memory, atomics and sorting: what several rooms of kernels need."""
