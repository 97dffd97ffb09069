#!/usr/bin/env bash
# All tests, in two processes; makes .venv first if it is missing. Further arguments go to pytest, the last of a kind counts:
# bash launch/test.sh tests/schedules -x -n 0
#
#   --python PYTHON   (first) tests by another interpreter, in .venv-PYTHON: python3.12 takes megatron-core 0.19
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ "${1:-}" = "--python" ]; then
    [ -n "${2:-}" ] || { echo "test: --python needs an interpreter, such as python3.12" >&2; exit 2; }
    export FUSEDRL_PYTHON="$2" FUSEDRL_VENV=".venv-$(basename "$2")"
    shift 2
fi
venv="${FUSEDRL_VENV:-.venv}"
bash launch/setup.sh
export OMP_NUM_THREADS=1
exec "$venv/bin/python" -m pytest -n 2 --dist loadgroup "$@"
