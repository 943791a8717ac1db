"""From a recipe to a distilled reranker: one file a stage, put together in ``distill.py``."""
