"""Plugins that ship with Kestrel. They use nothing that a stranger's plugin could not."""
