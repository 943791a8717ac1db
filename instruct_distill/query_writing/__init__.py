"""Queries for a collection that has none: a model writes one for each of some of its documents."""
