"""Golden cases: folders of YAML, written by hand from docs/injection.md."""
