"""One run of an origin for all who ask the same: from take-off to what lands, and what is left of it."""
