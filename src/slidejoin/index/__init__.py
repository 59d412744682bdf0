"""One module for each index structure of the papers: which stored rows have a key in this range."""
