"""Language models as what this library needs of them: token batches in, float32 answer logits out."""
