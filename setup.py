"""Packaging of fusedrl: the trainer, its schedules and its Megatron-Core patches.

GPU libraries are extras: they do not install beside a CPU build of torch. `apex` on PyPI is another project, so
NVIDIA's apex is documented (docs/gpu.md), never declared here.
"""

from setuptools import find_packages, setup

setup(
    name="fusedrl",
    version="0.1.0",
    description="RLHF on Megatron-Core with a fused actor+critic pipeline",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["schedules*", "fusedrl*", "megatron_patches*", "configs*"]),
    package_data={
        "configs": ["**/*.yaml", "*.yaml"],
        "fusedrl": ["py.typed"],
        "schedules": ["py.typed"],
        "schedules.found": ["orders/*/*"],
    },
    install_requires=[
        "torch>=2.6",
        "megatron-core>=0.16,<0.20",
        "transformers>=4.51,<6",
        "tokenizers",
        "safetensors",
        "hydra-core>=1.3.2,<1.4",
        "omegaconf>=2.3,<2.4",
        "numpy",
        "PyYAML",
        "msgpack",
        "pyzmq",
        "rich",
        "tensorboard",
        "ortools",
        "numba",
        "matplotlib",
        "reasoning-gym>=0.1.25",
    ],
    extras_require={
        "gpu": ["transformer-engine[pytorch]<2.12", "flash-attn"],
        "vllm": ["vllm>=0.32,<0.33"],
        "parquet": ["pyarrow"],
        "wandb": ["wandb>=0.19"],
        "mlflow": ["mlflow-skinny>=2.16,<4"],
        "ray": ["ray>=2.40,<3"],
        "slurm": ["hydra-submitit-launcher>=1.2,<2", "submitit>=1.5,<2"],
        "dev": ["pyarrow", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "ruff", "mypy", "types-PyYAML"],
    },
)
