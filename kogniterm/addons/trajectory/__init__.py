"""Sessions as trajectories, for programs that compare agents."""
