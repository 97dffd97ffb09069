"""`python -m fusedrl.report runs/NAME [out=FILE]`: a run's page, runs/NAME/report.html by default.

What could not be read is told, one line each, here and on the page; code 2 where no page could be made.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from fusedrl.report.page import write_report

USAGE = "usage: python -m fusedrl.report runs/NAME [out=FILE]"


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    out = [each.removeprefix("out=") for each in arguments if each.startswith("out=")]
    folders = [each for each in arguments if not each.startswith("out=")]
    if arguments in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if len(folders) != 1 or len(out) > 1 or "" in out or folders[0].startswith("-"):
        print(f"fusedrl.report: one run's folder is needed; {USAGE}", file=sys.stderr)
        return 2
    try:
        path, problems = write_report(Path(folders[0]), out=Path(out[0]) if out else None)
    except (ValueError, OSError) as error:
        print(f"fusedrl.report: {error}", file=sys.stderr)
        return 2
    for problem in problems:
        print(f"fusedrl.report: {problem}", file=sys.stderr)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
