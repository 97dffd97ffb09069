"""Drawings of an order: a text grid, a Gantt chart (SVG, PNG) and a Chrome trace."""
