"""The images: built from the Dockerfile as it stands, on a Debian that is made of packages, and run."""
