"""`stowplan learn`: lessons with a page to read, a file to complete and a check that runs it.

The frame (this package) knows no lesson by name: it shows what it finds in `lessons/`. A lesson is
a folder `lessons/NN_name/`, numbered in the order of learning:

    lesson.yaml         track: workshop | tutorial | framework
                        file: scheduler.py      the name of the learner's copy of the exercise
                        time_limit_s: 30        optional; of a check on `virtual`, in real seconds
    lesson.en.md        the page. `# Title` first, then at most 60 lines of at most 76 columns:
                        paragraphs, `##` headings, `-` or `1.` lists, fenced code, `code`, **bold**
    hint.en.md          a nudge, in the same form; not the answer
    messages.en.yaml    key: "what is wrong, in words, and where to look"; {fields} are filled in
    exercise.py         the file to complete (or .yaml): runs as it is, says `# TODO:` what to do
    solution.py         the same, completed; what `learn solution` and `learn diff` compare with
    check.py            def check(work: Any, on: str) -> Iterable[Note] | None
    given/              optional: files that are copied beside the exercise as they are

`xx` in place of `en` is another language, which is offered once every page, hint and message of
all lessons is translated. Words of the frame, and messages that every check may use, are in
`texts/frame.en.yaml`. Each lesson has at least three plausible wrong answers in
`tests/integration/lessons_wrong`.

A check is given the learner's module (of a .py) or its list of documents (of a .yaml) and the name
of the target, plays scenarios with them, and says what is wrong with what happened. It runs code
and never looks at its text. Everything it needs is in `stowplan.learn.checking`:

    Mistake(key, *, at=None, **fields)  raise it, also inside a scenario; `at` is the learner's
                                        function or class that the message is about: file and line
    Note(key, **fields)                 return some: what passed, but should be known (what could
                                        not be checked here)
    play(scenario, on, options=...)     run_scenario, out of which come a Mistake and the error of
                                        a learner's program as they are; without our own scheduler
                                        unless the options have one
    start(cluster, function, *args)     run the learner's coroutine function beside the scenario;
                                        gives a Running (has_ended, error, must_go_on())
    part(work, "schedule")              a function or class of the learner's, or a Mistake that
                                        says that it is gone; part(work, "run", is_async=True)
    call(function, *args)               what the learner's function returns, or a Mistake if its
                                        parameters are not those of the exercise any more
    manifests(work)                     the documents of a YAML file, each with kind and name
    printed()                           a context manager: the lines that were printed in it (they
                                        are still shown)
    logged()                            the same of what is logged: a list of messages

A check need not handle errors of the learner's code. Wherever an error surfaces (in the check, in a
program that was started, in the log of an informer whose handler raised), it is reported with the
line of the learner's file, and so is a coroutine that was never awaited. A Mistake that is raised
meanwhile is reported after it. `lessons/03_bind` is an example with all of this.
"""
