"""A whole push in one call."""
