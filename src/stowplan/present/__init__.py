"""Text for people: tables, status lines and Markdown on a terminal; HTML pages with plots.

Commands and reports put their facts into these forms. The package imports nothing else of ours and
knows neither clusters nor benchmarks. Text that comes from a cluster must pass through
`tables.printable` on its way to a terminal and through `html.escape` on its way to a page.
"""
