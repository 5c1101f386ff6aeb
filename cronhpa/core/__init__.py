"""
The pure core: `decide(spec, observation, forecast, memory, now) -> Decision` and its vocabulary.

An import contract keeps I/O and clocks out.
"""
