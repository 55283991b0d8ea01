"""The workflows of the forge. Nothing here runs them, so they are held against linters and the repository itself."""
