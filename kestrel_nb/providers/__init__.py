"""Models: one file per wire format, and the models that need none."""
