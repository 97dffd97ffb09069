"""What the calls of a step cost in time and memory on a layout, and which layouts to take.

sizes     a model's parameters by rank            cluster   devices, nodes, links: what their sheets say
costs     seconds of passes, decode steps, messages (a protocol with two sources: analytic, measured)
memory    bytes of a rank by kind, and by how much they do not fit
"""
