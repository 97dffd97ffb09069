#!/usr/bin/env bash
# Checks on one GPU, in under five minutes, what CPU ranks cannot show (docs/gpu.md). Exit code 1 where a check fails.
# Arguments go to fusedrl.bench.gpu_check: bash launch/gpu_check.sh out=FOLDER transformer_impl=local
#
#   FUSEDRL_PYTHON   a Python that has a CUDA build of torch and megatron-core (the image of your cluster, say); without
#                    it .venv is taken, and made with FUSEDRL_TORCH (default: the version of constraints.txt, CUDA build)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${FUSEDRL_PYTHON:-.venv/bin/python}"
if [ -z "${FUSEDRL_PYTHON:-}" ] && [ ! -x "$python" ]; then
    FUSEDRL_TORCH="${FUSEDRL_TORCH:-$(sed -n 's/^torch==/torch==/p' constraints.txt)}" bash launch/setup.sh
fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" -m fusedrl.bench.gpu_check "$@"
