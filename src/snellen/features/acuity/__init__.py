"""Thresholds of an encoder on the drawings of acuity: how small, faint or alike may things be that its features tell apart?

docs/acuity-method.md, "The encoder's threshold", has the method and its limits.
"""
