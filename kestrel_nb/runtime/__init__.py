"""The agent runtime: contracts, registries and the loop. It does no I/O but through stores and models."""
