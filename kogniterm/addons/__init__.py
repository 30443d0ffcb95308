"""Add-ons: each folder can be deleted together with its rows in `table`."""
