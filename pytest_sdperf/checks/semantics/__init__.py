"""Does the picture show what the prompt asks for?"""
