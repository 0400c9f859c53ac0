"""Token ids: the same machine, with markers that cannot be faked."""
