"""The web console: `stowplan console`, and `stowplan run --console`.

    mirror    the cluster as informers report it, apart from the scheduler's own state
    columns   all nodes in compact columns, and what changed in them
    history   the same over the last minutes
    pieces    long listings in small steps
    pending   waiting pods by state and cause
    fixes     what would place a pending pod
    decision  one pod: its explanation, and nodes by plugins
    flow      throughput, latency and attempts over time
    shadow    how far a configuration agrees with the scheduler that serves
    events    server-sent events, with resume
    site      paths, files and the checks of every request
    hosts     which Host headers are this server's own
    sign_in   tokens and sessions, for a console that others can reach
    sessions  browsers that have signed in, and failed sign-ins
    serving   puts them together on one port
    follow    informers for a cluster that another scheduler serves
    try_cluster, try_changes, try_text
              the page Try: writes to the embedded cluster of a demo or a simulation
    file_page, plots
              HTML files of other commands, with the same look

The console reads; only Try changes anything, and only a cluster of this process. The pages are in
`static`, plain modules without a build step; `static/vendor` holds the libraries of others.
"""
