"""An adapter that cannot be loaded."""

from worker_notes import note

note("broken", "tried")
raise RuntimeError("this adapter is broken on purpose")
