"""Making questions: taxonomies, wording, negatives, and the proof that a set is what it says it is."""
