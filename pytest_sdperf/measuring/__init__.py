"""How fast is a case, and how much memory does it take? Fresh processes, seen from outside."""
