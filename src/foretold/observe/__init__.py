"""What a node tells about itself: counts, never texts."""
