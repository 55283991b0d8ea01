"""The HTTP servers of the programs: uvicorn with limits on connections and bodies."""
