#!/usr/bin/env bash
# Every fault in every phase of a run (docs/reliability.md), on two CPU ranks. Some ten minutes on two cores. Further
# arguments go to pytest: bash launch/test_faults.sh -k killed
#
# Each cell prints how long the run took to end (TIME). A file system that fills up is tested as root alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
export FUSEDRL_TEST_FAULTS=all OMP_NUM_THREADS=1
exec .venv/bin/python -m pytest tests/faults -s "$@"
