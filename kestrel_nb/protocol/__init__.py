"""Values that every part of Kestrel speaks: messages, tools, sessions, events, errors and their JSON.

Nothing here does I/O or knows of asyncio; everything is the standard library.
"""
