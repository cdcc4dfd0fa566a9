"""The edge on this machine: the Worker in workerd in front of a running node, and records pushed to an edge's KV."""
