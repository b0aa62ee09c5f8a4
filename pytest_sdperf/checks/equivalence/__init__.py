"""Is the graph the same function as its module?"""
