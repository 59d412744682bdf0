"""Joins of many streams: ranks of wide rows, and wider rows from what they found."""
