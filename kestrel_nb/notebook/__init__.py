"""The notebook front: cell, view, record, magics."""
