"""The acuity card: thresholds of a run as an eye chart, with the curve of each condition."""
