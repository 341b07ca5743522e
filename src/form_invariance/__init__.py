"""Does a language model compute arithmetic with the same neurons whatever the form of the problem?"""

__version__ = "0.1.0"
