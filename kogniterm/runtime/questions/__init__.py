"""The words of questions about actions, plans and modes, whoever asks them."""
