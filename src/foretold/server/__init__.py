"""HTTP: what is accepted, in what order it is checked, and how answers go out."""
