"""Does the build compute what its module computes?"""
