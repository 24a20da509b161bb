"""Fixtures that every suite may ask for."""

import logging
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.examples import SHARE

pytest_plugins = [
    "tests.controlplane_fixtures",
    "tests.embedded_fixtures",
    "tests.image_fixtures",
]

# How long an example takes says nothing on a machine that others use too. Without a database an
# outcome depends on the code and the seed alone.
untimed = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None, print_blob=True
)
# The same examples in every run; `make fuzz` explores others.
settings.register_profile("fixed", untimed, derandomize=True, max_examples=round(100 * SHARE))
settings.register_profile("explore", untimed, max_examples=500)
settings.load_profile("fixed")


#: The files that take longest, longest first, by the `--durations` of `make test`. They
#: start first: one that started last would keep a process busy while the others have none left.
LONGEST_FILES = (
    "tests/e2e/test_chaos.py",
    "tests/e2e/test_image.py",
    "tests/integration/test_bad_days.py",
    "tests/e2e/test_live_parity.py",
    "tests/integration/test_docs_blocks.py",
    "tests/integration/test_distributions.py",
    "tests/integration/test_scenarios.py",
    "tests/integration/test_bench.py",
    "tests/e2e/test_requeue.py",
    "tests/integration/test_package.py",
    "tests/integration/test_lessons.py",
    "tests/integration/test_preemption_meanwhile.py",
    "tests/e2e/test_extender_client.py",
    "tests/integration/test_static_bad_days.py",
    "tests/integration/test_kubectl_transcripts.py",
    "tests/integration/test_sweep.py",
    "tests/e2e/test_requeue_matrix.py",
    # Of what only computes.
    "tests/perf/test_doubling.py",
    "tests/parity/test_fuzz.py",
    "tests/unit/lab/bench/test_attack.py",
    "tests/unit/testing/test_plugin_checks.py",
    "tests/parity/test_disabled_points.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: number for number, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    """Commands configure logging for their process; the next test starts as this one did."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    levels = _log_levels()
    yield
    root.handlers[:] = handlers
    for name, level in _log_levels().items():
        if level != levels.get(name, logging.NOTSET):
            logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))


def _log_levels() -> dict[str, int]:
    loggers = logging.root.manager.loggerDict.items()
    named = {name: each.level for name, each in loggers if isinstance(each, logging.Logger)}
    return {"": logging.root.level, **named}


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors, but for one that is the interpreter's own doing; Ctrl-C is heard.

    What a shell starts in the background ignores Ctrl-C, and so would every process of the tests.

    Before Python 3.12 asyncio leaks a connection that it accepts while the server closes: the
    transport is made, refuses to attach itself and is left to the garbage collector, in whichever
    test that happens to run then.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.version_info < (3, 12):
        for left_over in ("<function _SelectorTransport.__del__", "<socket.socket"):
            config.addinivalue_line(
                "filterwarnings",
                f"ignore:Exception ignored in. {left_over}:pytest.PytestUnraisableExceptionWarning",
            )


def pytest_sessionstart() -> None:
    """Fixed examples are the same whatever else the process has loaded.

    Hypothesis also draws constants that it finds in the project's modules, as many as are imported
    at that moment: a test alone would get other examples than among others.
    """
    if settings.get_current_profile_name() == "fixed":
        providers._get_local_constants = lambda: providers._local_constants
