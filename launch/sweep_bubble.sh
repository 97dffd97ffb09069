#!/usr/bin/env bash
# Bubble ratios, planned and emulated on CPU ranks that sleep, over depth x micro-batches x mix of lengths x method:
# bash launch/sweep_bubble.sh [--folder runs/sweep_bubble] [--slurm] [key=value key=a,b,c ...]
# The same command again goes on where it stopped. Ends in FOLDER/index.html and FOLDER/sweep.csv (docs/pipeline.md).
#
#   FUSEDRL_PYTHON   interpreter (default: the checkout's .venv, which launch/setup.sh makes, else python3)
set -euo pipefail
root="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
launcher="${BASH_SOURCE[0]}"
source "$root/launch/common.sh"
python="$(pick_python)"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" -m fusedrl.bench.bubble_sweep "$@"
