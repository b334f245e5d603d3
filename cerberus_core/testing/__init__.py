"""For tests: ours and those of plugin authors.

Owns a scripted OpenAI-shaped server, a clock that is turned by hand, and the
conformance kit. Fakes here are real programs on loopback. Nothing of the
daemon imports this room.
"""
