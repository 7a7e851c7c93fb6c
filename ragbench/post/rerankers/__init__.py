"""Rerankers, one file each; reached by name through `ragbench.post.build`."""
