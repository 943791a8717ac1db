"""Asking a model without gradients, in batches."""
