"""Fuzzing of every reader of outside bytes: `make fuzz`, docs/fuzzing.md.

readers     the table: a name, what reads, the errors that its callers expect
sites       servers of ours, fed without sockets
answers     what the API server, etcd and other programs answer, fed to their readers
corpus      the kept inputs of tests/data/fuzz, and which of them add coverage
mutations   new inputs from kept ones
findings    what counts as one, and the file that keeps its input
run         one reader, one engine, a number of inputs
coverage    the same by atheris, which keeps inputs that reach new code
"""
