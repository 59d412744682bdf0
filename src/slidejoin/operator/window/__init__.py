"""The window of one side: its rows, their keys, its index."""
