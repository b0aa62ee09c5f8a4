"""Verdicts and agreements as lines and files. Pure: nothing here knows pytest, and nothing decides."""
