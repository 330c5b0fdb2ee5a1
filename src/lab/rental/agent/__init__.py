"""The agent: process 1 of a rented machine, an HTTP server that runs one job's stages and outlives all of them.

Standard library only, and nothing newer than Python 3.9, because it meets whatever Python the image has. It travels
inside the create request as one file, a zip of this package (`lab.rental.bootstrap` makes it), so its modules import
each other relatively and nothing else of lab.
"""
