"""A student as an HTTP server, in the shape that Cohere's and Jina's clients know."""
