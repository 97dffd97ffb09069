"""Files of compiled functions that no source asks for any more: those of earlier digests, once they are some days old.

A process that still runs an earlier source may read such a file at any time: where it is gone, numba compiles anew, as
where it never was. So files may be removed beside other processes, and by several of them at once.
"""

import time
from collections.abc import Collection
from pathlib import Path

DAYS = 7  # that a digest's files stay: whoever goes back to an earlier source within them need not compile


def remove_stale(folder: Path, *, stems: Collection[str], digest: str, days: float = DAYS) -> None:
    """Remove numba's files of functions in `stems`' modules that do not bear the digest, where nobody wrote them for
    so many days. Files that cannot be removed stay."""
    before = time.time() - days * 24 * 3600
    for path in folder.glob("*.nb[ic]"):
        if path.name.partition(".")[0] in stems and f"-{digest}." not in path.name:
            try:
                if path.stat().st_mtime < before:
                    path.unlink()
            except OSError:  # another process was faster, or it is not ours to remove
                continue
