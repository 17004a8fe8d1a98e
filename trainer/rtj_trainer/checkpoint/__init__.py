"""Checkpoints that are either whole or not there: PyTorch's distributed checkpoints, saved beside
the training, committed by a marker."""
