"""Orders of pipeline work: what to compute on which rank, in which sequence. Torch-free and usable alone.

    problem.yaml -> Problem --builders, search--> Order --lower--> one instruction list per rank

A Problem (problem.py) says what work there is. An Order (order.py) says, for each rank, in which sequence it is done.
replay.py computes the times of an order and is the one oracle for makespan, bubble ratio and memory. Nothing here
runs a model: fusedrl.pipeline executes the lowered lists.

Kinds of work: F forward, B backward (the input part where the weight part is split off), W weight part of backward.
"""
