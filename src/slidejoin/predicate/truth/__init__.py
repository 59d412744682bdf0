"""Whether a pair matches: types, values, vectorised evaluation in three-valued logic."""
