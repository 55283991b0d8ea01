"""The names that users rely on: ``names.txt`` has those that ``docs/promises.md`` promises."""
