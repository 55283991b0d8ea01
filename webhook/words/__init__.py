"""What things are called: keys and paths, choices, outcomes, errors, versions, and the catalogue of messages."""
