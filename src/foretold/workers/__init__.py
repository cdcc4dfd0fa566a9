"""Several processes of one node: a parent that serves nothing, and workers that share its port, disk and flights."""
