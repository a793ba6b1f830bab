"""The core tools: files, search, shell and progress."""
