"""
Tests against a real control plane. A package, so that its fixtures of scope "package" end with the last of them.

The control plane, the operator and what measures take a fifth of a core at rest, which the other tests need.
"""
