"""The project's pages, and `docs.generate`, which writes the parts of them that code knows."""
