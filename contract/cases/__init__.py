"""The vectors as tables: one module a topic, every expected value written by hand or computed by reference.py."""
