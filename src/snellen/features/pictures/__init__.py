"""Pictures on their way to an encoder: decoded, resized, normalised, and encoded here or in several workers."""
