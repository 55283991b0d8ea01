"""The shared words: keys and paths, choices, outcomes, errors, versions, and the catalogue of messages."""
