"""What a release consists of: the steps that make it, which the release workflow and a rehearsal both call."""
