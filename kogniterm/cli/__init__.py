"""The command line: argument parsing and the verbs behind `kogniterm`."""
