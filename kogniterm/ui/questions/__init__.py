"""The questions a user is asked, as panels of the prompt and as lines."""
