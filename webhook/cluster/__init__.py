"""The only door to the outside: the API server, mirrors of its objects, and state from files."""
