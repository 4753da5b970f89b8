"""Thresholds of an encoder on the drawings of acuity: how small, faint or alike may things be that its features tell apart?

docs/acuity-studies.md, "What the encoder resolves", has the method and its limits.
"""
