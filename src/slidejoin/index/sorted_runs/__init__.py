"""Sorted runs by arrival: PanJoin's BI-Sort."""
