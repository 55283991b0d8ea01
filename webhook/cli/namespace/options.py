"""The options of ``gpu-topology namespace`` that set an option of the namespace: one for each, from the one table."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import typer

from webhook.decisions.options import EXPECTED_VALUES, OPTION_NAMES, SWITCHES
from webhook.insight.namespace.meaning import OPTIONS
from webhook.words import names

_PANEL = "Options of the namespace"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each option of the project; the command takes them as keyword arguments.

    A switch is ``--require-nvlink`` and ``--no-require-nvlink``, another option ``--profile VALUE``.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    command.__signature__ = signature.replace(parameters=[*own, *_parameters()])  # type: ignore[attr-defined]
    return command


def given_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of the options that were given, as annotations have them."""
    found = {name: values[name.replace("-", "_")] for name in OPTION_NAMES}
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in found.items()
        if value is not None
    }


def given_variables(values: list[str] | None) -> dict[str, str]:
    """Return the options of ``--env NAME=VALUE``.

    Raises:
        BadParameter: there is no name, or no value.
    """
    found = {}
    for each in values or []:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"expected NAME=VALUE, found {each!r}", param_hint="--env")
        found[names.ENV_PREFIX + name] = value
    return found


def _parameters() -> Iterator[inspect.Parameter]:
    for name in OPTION_NAMES:
        is_switch = name in SWITCHES
        said = f"{OPTIONS[name][:1].upper()}{OPTIONS[name][1:]}"
        help_text = f"{said}." if is_switch else f"{said}: {EXPECTED_VALUES[name]}."
        declared = f"--{name}/--no-{name}" if is_switch else f"--{name}"
        option = typer.Option(declared, help=help_text, rich_help_panel=_PANEL, metavar=None if is_switch else "VALUE")
        annotation: Any = Annotated[bool | None, option] if is_switch else Annotated[str | None, option]
        yield inspect.Parameter(
            name.replace("-", "_"), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )
