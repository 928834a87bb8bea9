"""One page that people read: what was found, what it looks like, and how it was made."""
