"""Searches: orders found by looking at many (anneal.py) or by proof (exact.py)."""
