"""Recipes in the runtime: where they are kept, and running one."""
