"""OpenTelemetry: the events of a session as spans and metrics, where variables ask for it."""
