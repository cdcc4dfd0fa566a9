"""From one recorded prediction to another shape of the same answer (rules P3 and P4): pure functions, ring 1."""
