"""Linear layers on features: fitted, chosen on rows held out of train, saved and measured."""
