"""The HTTP servers of the programs: uvicorn with the limits that it lacks."""
