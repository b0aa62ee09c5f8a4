"""How a torch module is wired: its sites and norms, from which counts are derived."""
