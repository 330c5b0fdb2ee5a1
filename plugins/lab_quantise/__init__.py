"""Quantising a tensor to 8 bits: no part of a training, but commands for the [[stages]] of an experiment."""
