"""The pages of docs/stories: what their commands print is what the program prints."""
