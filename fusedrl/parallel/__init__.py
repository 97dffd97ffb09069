"""Who works together: layouts (tp, pp, dp), the rank map, process groups per model, small collectives on bytes.

layout.py is plain arithmetic (no torch); groups.py makes the process groups and installs megatron_patches.
"""
