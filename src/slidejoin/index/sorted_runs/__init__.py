"""Sorted runs in order of arrival: PanJoin's BI-Sort."""
