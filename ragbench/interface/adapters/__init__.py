"""One adapter a file: foreign objects, functions and endpoints as RAGs. See `as_rag`."""
