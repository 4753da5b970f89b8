"""VLM2-Bench: linking the same thing across images and video, in nine subtasks."""
