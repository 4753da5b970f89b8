"""Pages and tables of failure labels."""
