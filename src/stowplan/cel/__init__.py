"""CEL, the Common Expression Language, as Kubernetes uses it to select devices.

    expression ─▶ parser ─▶ checker ─▶ program ─▶ evaluate(device)
                 (macros)   (types,     (closures
                             overloads)  that count cost)

Results, error messages and costs are those of cel-go 0.26 in kube-scheduler's environment; a test
compares them on thousands of expressions. `device.compile_selector` is the entry point for DRA.
"""
