"""From records and flights to what goes to a caller."""
