"""Commands on other machines, by Ansible: a program of its own that is started, never imported."""
