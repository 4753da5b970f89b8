"""One executor for several GPUs and hosts: workers on Ray hold the model, the process that was started does the rest.

`cluster` starts or finds a Ray, `pool` shares work out and asks again what a lost worker held, `worker` is what runs
over there, `carrying` brings pictures there, `model` is the pool as a model of the engine. Ray is imported only where
a cluster is entered.
"""
