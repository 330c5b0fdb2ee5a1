"""Series: arms, order and repeats of experiments in one job on one machine. Nothing lives here yet."""
