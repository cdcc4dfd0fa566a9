"""Where records are kept and found: the stores in their order, each counted, bounded and left out when it fails."""
