"""Everything one does with a run: evaluate, score, compare, judge, label failures, export, query."""
