"""Cell tables: hash tables whose cells are as wide as the band."""
