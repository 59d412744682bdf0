"""What is decided before rows come: terms, cells, the window as a term, the output schema."""
