"""Rented machines, from intent to proven deletion, on any cloud that has a `Provider`."""
