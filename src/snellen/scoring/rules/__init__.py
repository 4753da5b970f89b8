"""Rules of other harnesses that score any benchmark's replies, reproduced from their description."""
