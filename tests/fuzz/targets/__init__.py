"""One module for each kind of input: ``seeds()`` gives examples of it, ``target(data)`` fails where a law is broken."""
