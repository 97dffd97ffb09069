"""RLHF on Megatron-Core with a fused actor+critic pipeline. Docs: docs/architecture.md."""

from fusedrl.libraries import guard_megatron

guard_megatron()
