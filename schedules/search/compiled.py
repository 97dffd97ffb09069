"""Compiling the search's functions with numba, kept on disk for as long as they are what the sources say.

numba keeps a compiled function until the function's own file changes. Compiled into it, though, are the functions that
it calls and the numbers that it names, in other files too, and numba would go on running the old ones. So what is kept
bears the digest of all these files in its name: an edit or an upgrade of any of them compiles all anew, and what is old
goes. Where no folder can be written to, nothing is kept, and each process compiles for itself.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from schedules.search.kept_files import remove_stale

# All that is compiled.
FILES = ("compiled.py", "kernel.py", "layout.py", "longest.py", "moves.py", "random_numbers.py", "tabu_kernel.py")


def _digest() -> str:
    sources = (Path(__file__).with_name(name).read_bytes() for name in FILES)
    return hashlib.sha256(b"".join(hashlib.sha256(source).digest() for source in sources)).hexdigest()[:16]


_DIGEST = _digest()
_tidied: set[str] = set()  # folders, by this process


class _Named(CompileResultCacheImpl):
    """numba's files of one function, the digest in their names."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}-{_DIGEST}"


class _Cache(FunctionCache):
    _impl_class = _Named

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is kept; a damaged file, which can fail in any way, is emptied and the function compiled anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a function that was compiled; the first time, forget those of earlier sources."""
        super().save_overload(sig, data)
        if self.cache_path not in _tidied:
            _tidied.add(self.cache_path)
            remove_stale(Path(self.cache_path), stems={Path(name).stem for name in FILES}, digest=_DIGEST)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled at its first call or read from disk; other threads run meanwhile."""
    result = njit(function, nogil=True)
    with suppress(RuntimeError):  # where there is no folder to keep it in
        result._cache = _Cache(function)  # as numba's cache=True does with a FunctionCache
    return result
