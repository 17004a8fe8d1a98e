"""All that knows NVRx 0.7: launcher and control entry points, health question, store, rounds."""
