"""The job's coordinator pod: who holds which position, when a round opens, what is told upwards."""
