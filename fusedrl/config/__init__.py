"""Typed configuration: schemas, composition by Hydra, checks before any process group starts, derived sizes.

Imports neither torch nor Megatron-Core, so a wrong key is told within a second.
"""
