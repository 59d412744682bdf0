"""Records: rows whose columns lie side by side."""
