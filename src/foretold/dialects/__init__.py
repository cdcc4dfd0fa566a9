"""The wire protocols clients speak."""
