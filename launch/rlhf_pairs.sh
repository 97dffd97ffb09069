#!/usr/bin/env bash
# RLHF in three steps on 2 CPU ranks: fine-tuning, a reward model from pairs of answers, PPO on that reward model's score.
# Each step goes on from where it was; arguments are overrides of the last one: bash launch/rlhf_pairs.sh algorithm=ppo
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
export OMP_NUM_THREADS=1
run() { .venv/bin/torchrun --standalone --nproc-per-node 2 -m "$@"; }
run fusedrl.sft experiment=rlhf_pairs
run fusedrl.reward_model experiment=rlhf_pairs
.venv/bin/python -m fusedrl.ppo --check --world 2 experiment=rlhf_pairs "$@"
run fusedrl.ppo experiment=rlhf_pairs "$@"
