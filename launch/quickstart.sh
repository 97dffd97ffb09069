#!/usr/bin/env bash
# The main job on CPU ranks, from nothing: set-up, SFT warm start, PPO with the fused pipeline. About eight minutes on 2 free cores.
# Further arguments are config overrides: bash launch/quickstart.sh trainer.total_training_steps=20
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
export OMP_NUM_THREADS=1
# a mistake in an override ends here, with code 2 and one clear line; torchrun itself always ends with 1
.venv/bin/python -m fusedrl.ppo --check --world 4 experiment=arithmetic "$@"
exec .venv/bin/torchrun --standalone --nproc-per-node 4 -m fusedrl.ppo experiment=arithmetic "$@"
