"""A run on one page: runs/NAME/report.html, from what lies in the run's folder (docs/report.md)."""
