"""What users call: evaluate, validate, compare, gate, ablate, report, export."""
