"""
The offline shell: simulated pods under a load, scaled by the same `decide` in virtual time.

No clock and no random numbers: equal arguments give equal runs.
"""
