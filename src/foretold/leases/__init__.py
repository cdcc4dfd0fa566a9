"""Flights shared by the processes of one machine (rule L2): byte locks say who flies, sockets share what comes.

Nothing here is needed for a right answer: whatever fails, a process flies by itself.
"""
