"""The built-in tools: requests, dates, JSON, arithmetic, patterns, images, search, files, commands, code and SQL."""
