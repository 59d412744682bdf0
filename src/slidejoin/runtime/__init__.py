"""What a process lends to every join: processor cores, threads, memory that is used again."""
