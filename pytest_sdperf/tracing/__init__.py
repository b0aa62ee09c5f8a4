"""A graph, value by value: what each node should give by its definition, and where a build leaves its export."""
