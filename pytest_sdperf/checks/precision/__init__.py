"""How far the steps of a request drift from the reference."""
