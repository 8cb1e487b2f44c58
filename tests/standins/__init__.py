"""Small web sites that stand for large ones: the same addresses, forms and answers, for a few tasks each.

Each module serves in threads of the process that uses it (`with WebArenaSites() as sites: ...`) and can be
started by hand (`python -m tests.standins.webarena`).
"""
