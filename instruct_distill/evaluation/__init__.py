"""Metrics, their certainty, and the tables and files that hold them; knows rankers only as ``Ranker``."""
