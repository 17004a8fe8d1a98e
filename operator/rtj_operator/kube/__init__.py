"""Talking to the API server: client, informers, leader lease, views of objects."""
