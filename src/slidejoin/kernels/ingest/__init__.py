"""Arrival order and clocks."""
