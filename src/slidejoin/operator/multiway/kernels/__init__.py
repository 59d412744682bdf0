"""Kernels of joins of many streams: ranks of wide rows, and wider rows from their matches."""
