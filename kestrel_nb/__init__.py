"""kestrel-nb."""
