"""The classes of our commands: help without a type for flags, errors without words of a library, `did you mean`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

# Words of kubectl and others, for commands of ours.
_MEANT = {
    "get": "status",
    "list": "status",
    "ls": "status",
    "top": "status",
    "describe": "explain",
    "why": "explain",
    "scale": "override",
    "pause": "override",
    "diff": "preview",
    "validate": "preview",
    "lint": "preview",
    "check": "preview",
    "migrate": "adopt",
    "simulate": "backtest",
    "operator": "run",
}
_LIBRARY = "Value error, "
_NO_NUMBER = "Input should be a valid integer"


def _without_flags_types(params: list[Any]) -> list[Any]:
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag:
            param.metavar = ""
    return params


class PlainCommand(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flags_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # An error of typer, whose class it does not export.
            message = str(getattr(error, "message", ""))
            if message.startswith((_LIBRARY, _NO_NUMBER)):
                plain = "a whole number is needed" if message.startswith(_NO_NUMBER) else message.removeprefix(_LIBRARY)
                error.message = plain  # type: ignore[attr-defined]  # as above
            raise


class CommandGroup(TyperGroup):
    """The program, or a command with commands below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flags_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        meant = _MEANT.get(args[0]) if args else None
        if args and args[0] not in self.commands and meant in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)
