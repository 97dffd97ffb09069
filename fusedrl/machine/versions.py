"""Versions: Python, torch, Megatron-Core, Hydra, and the optional libraries; which are broken, or not the ones meant.

Nothing is imported but torch and, where they are installed, the libraries of fusedrl.libraries; whatever an import
raises becomes a line.
"""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from fusedrl.libraries import Library, libraries
from fusedrl.machine.finding import Finding, bad, warn
from fusedrl.rollout import vllm_library

PYTHON = SpecifierSet(">=3.10,<3.14")
# distribution -> versions that setup.py asks for
NEEDED = {
    "torch": SpecifierSet(">=2.6"),
    "megatron-core": SpecifierSet(">=0.16,<0.20"),
    "transformers": SpecifierSet(">=4.51,<6"),
    "hydra-core": SpecifierSet(">=1.3.2,<1.4"),
    "omegaconf": SpecifierSet(">=2.3,<2.4"),
}
INSTALL = "bash launch/setup.sh, or pip install --constraint constraints.txt -e . in your environment"


def version_findings(*, gpu: bool) -> list[Finding]:
    """gpu: whether this process has one, where optional libraries are worth having."""
    found = [python_finding(".".join(str(part) for part in sys.version_info[:3]))]
    found += [needed_finding(name, installed(name)) for name in NEEDED]
    found += [library_finding(each, gpu=gpu, foreign=each.name == "apex" and is_foreign_apex()) for each in libraries()]
    return [*found, vllm_finding(vllm_library.installed_version())]


def installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def python_finding(version: str) -> Finding:
    if PYTHON.contains(version):
        return Finding("python", version)
    return bad("python", f"{version}; {PYTHON} is supported", change="name another by FUSEDRL_PYTHON")


def needed_finding(name: str, version: str | None) -> Finding:
    """Of a library without which nothing runs."""
    allowed = NEEDED[name]
    if version is None:
        return bad(name, "not installed", change=INSTALL)
    if not allowed.contains(version, prereleases=True):
        return bad(name, f"{version}; {allowed} is supported", change=INSTALL)
    if name != "torch":
        return Finding(name, version)
    return torch_finding(version)


def torch_finding(version: str) -> Finding:
    try:
        import torch
    except Exception as error:  # a build for another CUDA or glibc raises OSError, others what they like
        return bad("torch", f"{version} cannot be imported: {_first_line(error)}", change=INSTALL)
    if not torch.distributed.is_available():
        return bad("torch", f"{version} was built without torch.distributed", change=INSTALL)
    built = torch.version.cuda or torch.version.hip
    return Finding("torch", f"{version}, {f'built for CUDA {built}' if built else 'a CPU build'}")


def library_finding(found: Library, *, gpu: bool, foreign: bool) -> Finding:
    """An optional one: worth a word where it is broken, or absent beside a GPU."""
    name, how = found.name.replace("_", "-"), "docs/gpu.md says how to install it"
    if foreign:
        text = "this is PyPI's project of that name, not NVIDIA's"
        return warn(name, text, change="pip uninstall apex; NVIDIA's is built from source (docs/gpu.md)")
    if found.problem:
        return warn(name, f"left out: {found.problem}", change=f"repair or uninstall it; {how}")
    if not found.usable and gpu and found.name == "transformer_engine":
        return warn(name, "absent: layers are Megatron-Core's local ones, with unfused attention", change=how)
    return Finding(name, str(found.version) if found.usable else "absent (optional)")


def is_foreign_apex() -> bool:
    """PyPI's `apex` is a toolkit for Pyramid: it has none of NVIDIA's modules."""
    return installed("apex") is not None and not any(_apex_files())


def _apex_files() -> Iterator[str]:
    files = importlib.metadata.files("apex") or []
    yield from (str(file) for file in files if str(file).startswith("apex/optimizers/"))


def vllm_finding(version: str | None) -> Finding:
    """The other generation engine; Megatron-Core's is built in."""
    if version is None:
        return Finding("vllm", "absent (optional)")
    first, beyond = (".".join(map(str, each)) for each in (vllm_library.FIRST, vllm_library.BEYOND))
    allowed = SpecifierSet(f">={first},<{beyond}")
    if version[0].isdigit() and allowed.contains(version, prereleases=True):
        return Finding("vllm", version)
    return warn("vllm", f"{version}; {allowed} is supported", change=vllm_library.ADVICE)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
