"""Batches of a run: made, sent, waited for and taken up, so that a kill at any moment neither pays twice nor loses an answer.

`log` is the state on disk, `shards` the files of rows, `submit` makes and sends them, `collect` polls and reads results, and
`execute` joins these into a run.
"""
