"""Where the questions lie and what a row of each layout means: the authors' files, VLMEvalKit's tables, the rows that lmms-eval logs."""
