"""Known geometry of a run's items: how large, faint or different the part is that decides each answer."""
