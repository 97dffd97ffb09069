#!/usr/bin/env bash
# Makes .venv beside this checkout and installs the versions of constraints.txt that are tested together.
# Quick when nothing changed since the last time. Sourced or called by quickstart.sh and test.sh.
#
#   FUSEDRL_PYTHON   interpreter to use (3.10 to 3.13; default: python3.11 where present, else python3)
#   FUSEDRL_VENV     folder of the environment (default: .venv); launch/test.sh --python makes further ones
#   FUSEDRL_TORCH    torch requirement (default: the CPU build that constraints.txt names; on a GPU machine set
#                    e.g. FUSEDRL_TORCH='torch==2.13.0' and the index of your CUDA version by PIP_EXTRA_INDEX_URL)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

supported() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

pick_python() {
    local candidate
    for candidate in ${FUSEDRL_PYTHON:-python3.11 python3 python3.12 python3.10 python3.13}; do
        if command -v "$candidate" >/dev/null && supported "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: no Python 3.10 to 3.13 found (tried ${FUSEDRL_PYTHON:-python3.11 python3 ...});" \
        "install one or name it by FUSEDRL_PYTHON" >&2
    exit 2
}

install_torch() {
    # The CPU build is asked for by its local version, so that a build with CUDA (several GB) never comes by accident.
    local pinned
    pinned="$(sed -n 's/^torch==/torch==/p' constraints.txt)"
    if [ -n "${FUSEDRL_TORCH:-}" ]; then
        "$pip" install --quiet "$FUSEDRL_TORCH"
    elif ! "$pip" install --quiet --no-deps "${pinned}+cpu" 2>/dev/null; then
        echo "setup: no CPU build ${pinned}+cpu in your package index; taking $pinned, which may bring CUDA libraries." \
            "Point PIP_EXTRA_INDEX_URL at an index of CPU builds to avoid that." >&2
        "$pip" install --quiet "$pinned"
    fi
}

venv="${FUSEDRL_VENV:-.venv}"
stamp="$venv/installed"
wanted="$(cat constraints.txt setup.py launch/setup.sh | sha256sum | cut -d' ' -f1) ${FUSEDRL_TORCH:-cpu}"
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
    python="$(pick_python)"
    echo "setup: making $venv with $("$python" --version) and installing pinned versions (1 to 3 minutes)"
    if [ ! -x "$venv/bin/python" ] && ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        echo "setup: '$python -m venv' failed; on Debian install python3-venv" >&2
        exit 2
    fi
    pip="$venv/bin/pip"
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    install_torch
    "$pip" install --quiet --constraint constraints.txt setuptools wheel
    "$pip" install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
    echo "$wanted" >"$stamp"
fi
