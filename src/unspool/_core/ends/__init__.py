"""What callers hold: the parser, what makes a message of its events, and what writes one."""
