#!/usr/bin/env bash
# All tests, in two processes; makes .venv first if it is missing. Further arguments go to pytest, the last of a kind counts:
# bash launch/test.sh tests/schedules -x -n 0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
export OMP_NUM_THREADS=1
exec .venv/bin/python -m pytest -n 2 --dist loadgroup "$@"
