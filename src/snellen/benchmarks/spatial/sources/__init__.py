"""Sources of questions: the authors' files, VLMEvalKit's tables, the rows that lmms-eval logs."""
