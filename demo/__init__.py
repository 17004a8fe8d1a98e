"""`make demo`: the main job on a real local cluster, with faults, a live table and a report."""
