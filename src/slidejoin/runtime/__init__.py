"""Resources that all joins of a process share: processor cores, threads, reusable memory."""
