"""report.html at a run's end, whether it finished, failed or was stopped."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusedrl.report.page import write_report


class ReportWriter:
    """A sink that reads what the others wrote, and is closed last. A failure is a warning of the logger."""

    name = "report.html"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Nothing: the page is made of the run's files."""

    def close(self) -> None:
        write_report(self._folder)
