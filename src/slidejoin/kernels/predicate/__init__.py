"""Keys of doubles, exact ends of ranges, hashes of text."""
