"""Search of facts by meaning: a small model of English sentences, run in numpy."""
