"""One side's window: its rows, its index, what leaves it, and how it is written down."""
