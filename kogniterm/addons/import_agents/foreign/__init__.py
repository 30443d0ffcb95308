"""Settings of other terminal agents: found in their files, in the shape that KogniTerm uses."""
