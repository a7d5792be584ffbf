"""An adapter that cannot be loaded."""

import time

from worker_notes import note

# When it was tried, by the clock that all processes of the machine share.
note("broken", str(time.monotonic()))
raise RuntimeError("this adapter is broken on purpose")
