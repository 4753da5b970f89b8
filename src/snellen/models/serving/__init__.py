"""Other programs' model servers, started and ended by us. Today: vLLM, which the user brings (docs/serving.md)."""
