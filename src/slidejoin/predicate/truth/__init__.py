"""Evaluation of predicates: types, values, vectorised three-valued logic."""
