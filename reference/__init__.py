"""The known-good GPT, one idea a file."""
