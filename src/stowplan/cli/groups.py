"""Groups of commands that accept a command's options on both sides of the command's name.

`stowplan learn --lessons-dir X start 1` means `stowplan learn start --lessons-dir X 1`, as kubectl
users expect. Every group of the CLI is a `CommandGroup`.
"""

from __future__ import annotations

import click


class CommandGroup(click.Group):
    """A group that passes options before the command's name on to the command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._options_last(ctx, args))

    def _options_last(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the options in front of the command's name behind it.

        The name is the first word that is a command and is preceded by nothing but whole options
        of that command: in `--dir plugin plugin Name`, the second `plugin`. Without such a word the
        arguments stay as they are, and click reports what is wrong with them.
        """
        if not args or not args[0].startswith("-"):
            return args
        names = self.list_commands(ctx)
        for at, word in enumerate(args):
            if word in ctx.help_option_names:
                break
            if word in names:
                command = self.get_command(ctx, word)
                if command is not None and _are_options_of(command, ctx, args[:at]):
                    return [word, *args[:at], *args[at + 1 :]]
        return args


def _are_options_of(command: click.Command, ctx: click.Context, words: list[str]) -> bool:
    """True if the words are options of the command, complete with their values."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    bare = click.Command(command.name, params=list(options))
    try:
        _, left, _ = bare.make_parser(click.Context(bare, parent=ctx)).parse_args(list(words))
    except click.UsageError:
        return False
    return not left
