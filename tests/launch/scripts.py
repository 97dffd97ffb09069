"""Launch scripts run with stand-ins for the programs that they start."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent.parent
LAUNCH = ROOT / "launch"
# prints what it was called with, an argument a line, and ends with FAKE_CODE
ECHO = '#!/usr/bin/env bash\nprintf "%s\\n" "$(basename "$0")" "$@"\nexit "${FAKE_CODE:-0}"\n'
PYTHON = """#!/usr/bin/env bash
if [ "$1" = -c ]; then echo "$FAKE_TORCH"; exit; fi
printf "%s\\n" "OMP_NUM_THREADS=$OMP_NUM_THREADS" "$@"
"""


def program(folder: Path, name: str, text: str = ECHO) -> Path:
    """A stand-in that PATH finds once `folder` is in front."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def python_of(folder: Path, *, options: str = "--signals-to-handle") -> dict[str, str]:
    """The environment with a stand-in for Python, whose torchrun has these options."""
    (folder / "torch/distributed").mkdir(parents=True)
    (folder / "torch/distributed/run.py").write_text(f"parser.add_argument('{options}')\n")
    python = program(folder, "python", PYTHON)
    return {"FUSEDRL_PYTHON": str(python), "FAKE_TORCH": str(folder / "torch")}


def run(
    script: Path | str, *arguments: str, cwd: Path, environment: Mapping[str, str], programs: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """bash SCRIPT ARGUMENTS with nothing in the environment but PATH and what is given."""
    path = os.pathsep.join(filter(None, [str(programs) if programs else "", os.environ["PATH"]]))
    return subprocess.run(
        ["bash", str(script), *arguments],
        cwd=cwd,
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def module_of(name: str) -> ModuleType:
    """A Python script of launch/, which is no package."""
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), LAUNCH / name)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses look it up
    spec.loader.exec_module(found)
    return found
