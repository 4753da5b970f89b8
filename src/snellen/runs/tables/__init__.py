"""Several runs in one table: a row for each model, a column for each metric of a benchmark."""
