"""Questions about single pods: which nodes fit, why the others do not, and each plugin's scores.

    answer({"objects": [...], "pod": {...}})      one question with its own cluster
    Stream().answer({"apply": [...], "pod": ...})  many on one cluster that changes step by step

`stowplan decide` runs these two on lines of JSON; docs/decide.md has the format. Nothing here
schedules: questions are answered by `scheduler.cycle.judge`, with the plugins of a profile.
"""

from stowplan.judge.answers import Judge, Stream, answer

__all__ = ["Judge", "Stream", "answer"]
