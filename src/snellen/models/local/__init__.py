"""Local models: any image-text-to-text checkpoint of the Hugging Face format, answered in dynamic batches.

Nothing here imports torch or transformers until a model is opened.
"""
