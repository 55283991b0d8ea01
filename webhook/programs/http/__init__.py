"""HTTP as our servers speak it: uvicorn with limits on connections and bodies."""
