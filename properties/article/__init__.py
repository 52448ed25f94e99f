"""The article's claims about mathematics, about parts, and about the reference."""
