"""An index for each branch of OR, as one index: a row that several branches match is a candidate once."""
