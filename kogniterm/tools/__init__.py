"""Tools: what is offered to the model, each with a schema and an effect class."""
