"""A model on this machine: what it is, how it gets here, and the process that runs it."""
