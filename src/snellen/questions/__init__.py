"""Question generation: taxonomies, wording, distractors, and verification of built sets."""
