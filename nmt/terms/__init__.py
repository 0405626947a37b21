"""Terms: how words of the source must be translated, by search or by a model that reads them.

All that is about them stands in this folder. `prepare.py` and `translate.py` have the steps of
these two commands.
"""
