"""Who works together: teams, layouts (tp, pp, dp), the rank map, process groups per model, small collectives on bytes.

team.py says which ranks are meant by "all". layout.py is plain arithmetic (no torch); groups.py makes the process
groups and installs megatron_patches.
"""
