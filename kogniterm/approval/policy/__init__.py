"""Policy: hard limits, rules, leases and the verdict."""
