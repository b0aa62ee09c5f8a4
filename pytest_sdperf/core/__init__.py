"""Values, contracts and small tools. Standard library only where a worker imports them."""
