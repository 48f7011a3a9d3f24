"""Erasing a tenant or a user everywhere, with a proof; each store is one class and one line in `opened`."""
