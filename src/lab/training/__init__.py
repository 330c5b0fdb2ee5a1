"""What trains: the model, its optimizer, batches on a device, checkpoints, FLOPs, fingerprints, kernel checks."""
