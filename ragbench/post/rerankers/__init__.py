"""Rerankers; reached by name through `ragbench.post.build`."""
