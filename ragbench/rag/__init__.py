"""Interface V2: what a RAG implements and what it returns."""
