"""Scale-out on Ray: workers on several GPUs and hosts hold the model, the starting process does the rest.

`cluster` starts or finds a Ray, `pool` shares work out and asks again what a lost worker held, `worker` is what runs
over there, `carrying` brings images there, `model` is the pool as a model of the engine. Ray is imported only where
a cluster is entered.
"""
