"""A whole push in one kernel call."""
