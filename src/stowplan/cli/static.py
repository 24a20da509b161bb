"""`stowplan static`, also the program `static-scheduler`: place pods by node labels.

The flags, variables, defaults and log lines are those of the rf Static Scheduler, so this is a
drop-in replacement. An invalid flag or variable is reported in one line that names it.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Final

import click

from stowplan.errors import ConfigError, Forbidden

_VARIABLES: Final = {
    "name": "SCHED_NAME",
    "delay": "SCHED_DELAY",
    "prometheus_port": "SCHED_PROMETHEUS_PORT",
    "bind_address": "SCHED_BIND_ADDRESS",
    "incluster_base_path": "SCHED_INCLUSTER_BASE_PATH",
}
_SWITCH: Final = "SCHED_PROMETHEUS"
_EPILOG: Final = f"""\b
Environment variables (flags take precedence):
  KUBECONFIG                 kubeconfig file
  SCHED_INCLUSTER_BASE_PATH  directory with the token and CA of a service account
  SCHED_NAME                 name of this scheduler
  SCHED_DELAY                seconds between rounds
  SCHED_PROMETHEUS_PORT      port of the metrics
  SCHED_BIND_ADDRESS         address of the metrics
  {_SWITCH}           "false" turns the metrics off
"""


@click.command(
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--name",
    metavar="NAME",
    envvar=_VARIABLES["name"],
    default="rfcustom",
    show_default=True,
    help="Place pods with this schedulerName, by labels with this name.",
)
@click.option(
    "-d",
    "--daemon",
    is_flag=True,
    help="Run until SIGTERM or Ctrl-C. Without it, try every pending pod once and exit.",
)
@click.option(
    "--delay",
    metavar="SECONDS",
    envvar=_VARIABLES["delay"],
    default="10",
    show_default=True,
    help="With --daemon: interval for retrying pending pods and, if the role does not allow watch, "
    "for listing nodes and pods.",
)
@click.option(
    "--respect-node-state",
    is_flag=True,
    help="Use a labelled node only if kube-scheduler would: not cordoned, taints tolerated, enough "
    "resources, volumes reachable. Needs more permissions.",
)
@click.option(
    "--prefix",
    metavar="PREFIX",
    default="rf.scheduler",
    show_default=True,
    help="Prefix of the labels.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig file. Default: the first of $KUBECONFIG, the pod's service account and "
    "~/.kube/config.",
)
@click.option(
    "--incluster-base-path",
    metavar="DIR",
    envvar=_VARIABLES["incluster_base_path"],
    help="Folder with the service account's token and CA, used without a kubeconfig.  "
    "[default: /var/run/secrets/kubernetes.io/serviceaccount]",
)
@click.option(
    "--prometheus-port",
    metavar="PORT",
    envvar=_VARIABLES["prometheus_port"],
    default="8000",
    show_default=True,
    help="With --daemon: port of the metrics, served on any path.",
)
@click.option(
    "--bind-address",
    metavar="ADDRESS",
    envvar=_VARIABLES["bind_address"],
    default="127.0.0.1",
    show_default=True,
    help="Address of the metrics; 0.0.0.0 or :: for all interfaces.",
)
@click.option("--prometheus-disable", is_flag=True, help="Serve no metrics.")
@click.option(
    "-v",
    "--verbose",
    "verbosity",
    count=True,
    help="Also log warnings; -vv: also every placed pod; -vvv: everything.",
)
@click.pass_context
def static(
    ctx: click.Context,
    name: str,
    daemon: bool,
    delay: str,
    respect_node_state: bool,
    prefix: str,
    kubeconfig: str | None,
    incluster_base_path: str | None,
    prometheus_port: str,
    bind_address: str,
    prometheus_disable: bool,
    verbosity: int,
) -> None:
    """Place each pod on the node that is labelled for it.

    A pod whose schedulerName is NAME goes only to a node with the label
    rf.scheduler.NAME.NAMESPACE/POD; the label's value does not matter. The label alone decides, so
    a cordoned, tainted or full node gets its pods too. If several nodes have the label, one is
    chosen at random. If none has it, the pod stays Pending, and its events show the command that
    fixes it. A pod that has a node is never moved.

    The older label rf.scheduler.NAME/POD works too. A pod name of more than 63 characters does not
    fit in a label: list it in the node annotation rf.scheduler.NAME.NAMESPACE/pods.

    Exit codes: 0 every pod was tried, or a signal ended the daemon; 1 the API server failed or
    denied access; 2 a flag, a variable or the kubeconfig is invalid.
    """
    from stowplan.plugins.static_placement.labels import name_problem
    from stowplan.server.serving import run_on_loop
    from stowplan.static.daemon import run_daemon
    from stowplan.static.lines import configure, log
    from stowplan.static.one_shot import run_one_shot
    from stowplan.static.settings import StaticSettings

    configure(verbosity)
    where = _Sources(ctx)
    for text, place in (("x", "--prefix"), (name, where("name"))):
        if problem := name_problem(text, prefix):
            raise ConfigError(problem, where=place)
    is_off = prometheus_disable or os.environ.get(_SWITCH, "").lower() == "false"
    settings = StaticSettings(
        name=name,
        prefix=prefix,
        kubeconfig=kubeconfig,
        incluster_base_path=incluster_base_path,
        daemon=daemon,
        delay_s=_seconds(delay, where("delay")),
        prometheus_port=None if is_off else _port(prometheus_port, where("prometheus_port")),
        bind_address=bind_address,
        where_port=where("prometheus_port"),
        respect_node_state=respect_node_state,
    )
    log.debug("Arguments: %s", settings)
    try:
        if daemon:
            run_on_loop(run_daemon(settings))
            return
        summary = run_on_loop(run_one_shot(settings))
    except Forbidden as problem:
        if respect_node_state:
            raise
        raise Forbidden(f"{problem}; deploy/static has the role that is needed") from None
    for line in summary.lines():
        click.echo(line)
    summary.check()


def main() -> None:
    """Run the entry point of `static-scheduler` and of examples/static/scheduler.py."""
    from stowplan.cli.main import main

    main(command=static, prog_name=Path(sys.argv[0]).name)


class _Sources:
    """The source of a parameter's value: its flag or its environment variable."""

    def __init__(self, ctx: click.Context) -> None:
        self._ctx = ctx

    def __call__(self, parameter: str) -> str:
        source = self._ctx.get_parameter_source(parameter)
        if source is click.core.ParameterSource.ENVIRONMENT and os.environ.get(
            _VARIABLES[parameter]
        ):
            return _VARIABLES[parameter]
        return "--" + parameter.replace("_", "-")


def _seconds(text: str, where: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigError(f"{text!r} is not a number of seconds, 0 or more", where=where)
    return seconds


def _port(text: str, where: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise ConfigError(f"{text!r} is not a port from 0 to 65535", where=where)
    return port
