#!/usr/bin/env bash
# All tests; makes .venv first if it is missing. Further arguments go to pytest: bash launch/test.sh tests/schedules -x
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
export OMP_NUM_THREADS=1
exec .venv/bin/python -m pytest "$@"
