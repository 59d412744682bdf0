"""Order-preserving keys of doubles, exact bounds of ranges, hashes of text."""
