"""Looks at a whole set-up and says what to do.  Nothing here changes anything, nor opens what a node holds open.

Each check is a function that yields notes; `checks.py` has them all in their order.
"""
