"""Plans of joins of many streams."""
