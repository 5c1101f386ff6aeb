"""
What the project exists for, pure: `decide(spec, observation, forecast, memory, now) -> Decision` and its vocabulary.

Nothing in here can do I/O or read a clock; an import contract holds that.
"""
