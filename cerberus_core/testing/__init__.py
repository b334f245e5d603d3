"""For tests, of plugin authors and of our own: conformance kit, fakes, fixtures.

Public: a plugin's tests may import everything here. Nothing outside tests does.
"""

from .clock import FakeClock
from .conformance import check_backends, check_package

__all__ = ["FakeClock", "check_backends", "check_package"]
