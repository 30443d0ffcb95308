"""Policy: hard limits, rules, leases, folder trust and the verdict."""
