"""Confinement: where tools may read, write, run and connect."""
