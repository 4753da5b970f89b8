"""Features of a vision encoder: extraction, storage, retrieval, probes and attacks.

`open_store` and `import_file` give features; every measure is a function over arrays.
"""

from snellen.features.store import Features, Labels, import_file, open_store

__all__ = ["Features", "Labels", "import_file", "open_store"]
