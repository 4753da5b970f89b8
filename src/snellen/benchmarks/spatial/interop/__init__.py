"""Files of answers and figures of lmms-eval and VLMEvalKit, read and written."""
