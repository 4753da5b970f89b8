"""The viewer: web pages over all runs of a folder, live from an index, or as static files."""
