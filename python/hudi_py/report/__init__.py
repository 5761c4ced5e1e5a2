"""A table as one HTML page: facts, sums over them, and their rendering.

`facts` queries the table, `summary` and the modules that it names turn the answers into frozen values, and `page`
renders those. See docs/report.md.
"""
