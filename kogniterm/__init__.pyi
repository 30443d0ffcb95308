from kogniterm.runtime.python_api.open_agent import open_agent as open_agent

__version__: str
__all__ = ["__version__", "open_agent"]
