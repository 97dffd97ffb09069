"""The search for the best plan, over tables alone: what each call costs in each way, and in how much memory.

space      the tables, and what a choice comes to, in plain Python: the reference
prune      ways that are never needed
kernel     the tables as arrays, and what a choice comes to, compiled
branch     branch and bound: the best choice, with proof
descent    local search with restarts: a good choice to begin with
mcmc       the Metropolis walk of ReaL, as a baseline
find       all of it, by method
"""
