"""The public API of the embedded library."""
