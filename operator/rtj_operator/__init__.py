"""The controller: informers -> observe -> decide (pure) -> reserve in status -> act."""
