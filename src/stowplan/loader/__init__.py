"""The one way in for bytes from outside: files, standard input, bodies, output of other programs.

    files        reads a file or a stream, up to a number of bytes
    json_text    JSON to values, or to a struct
    yaml_text    YAML to values, as kubectl reads it
    numbers      whole numbers in text
    malformed    the limits, and the error that says where and why

Every reader of the project goes through it, and ruff's banned-api rule (pyproject.toml) refuses
other calls of a parser. Invariant: for any bytes, the result is a value within the limits or a
`Malformed`; never another exception, never work out of proportion to the bytes.
"""
