"""A RAG of our own: documents, chunkers, stores, embedders, and pipelines of them."""
