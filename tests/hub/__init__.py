"""A hub on loopback: enough of its API for the real huggingface_hub client, with faults on demand."""
