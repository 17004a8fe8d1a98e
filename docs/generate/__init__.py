"""Parts of the pages that are made from code and measurements, so that they cannot fall behind.

python -m docs.generate --write   # rewrite docs/reference.md and the ladder in README.md
python -m docs.generate           # say which of them are out of date; exit code 1 if any is
"""
