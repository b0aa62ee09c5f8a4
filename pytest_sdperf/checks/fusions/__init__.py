"""Did the fusions fire?"""
