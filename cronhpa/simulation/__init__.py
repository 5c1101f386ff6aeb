"""
The offline shell: pods that take time to start, under a load, decided by the same `decide` in virtual time.

Nothing in here reads a clock or draws a random number: the same arguments, the same run.
"""
