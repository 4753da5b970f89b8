"""Pages and tables of why answers were wrong."""
