"""Benchmarks that print what the documentation quotes."""
