"""Sessions: the journal, its storage, and the fold from records to state."""
