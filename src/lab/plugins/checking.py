"""Whether the installed plugins can do what an experiment asks for; nothing heavy is imported to find out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from lab.errors import LabError, UsageError, did_you_mean
from lab.experiment import Experiment, PartChoice
from lab.experiment.faults import explain, unknown_key
from lab.plugins import absent
from lab.plugins.loading import UnknownPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import BaseModel

WHERE = "where"
WHERES = ("launch", "worker")
"""Beside which process a tracker runs: an option that every tracker has, and that launch reads."""
FOR_LOOPS = ("attention", "loss", "data", "model", "batch", "optimizer", "evaluate")
"""What nobody but a loop reads."""
PLAIN = {"precision": "fp32", "residual": "fp32", "compile": False, "prefetch": False}
"""How a loop trains that reads none of these keys of [train]."""


READABLE = (*FOR_LOOPS, *(f"train.{key}" for key in PLAIN))
"""What a loop may say that it reads; the rest of an experiment concerns every run."""


class KnowsOptions(Protocol):
    """Whoever can say which options a choice has: `Plugins`, or a stand-in."""

    def options(self, kind: str, choice: PartChoice, key: str = "") -> BaseModel | None:
        """The options of a choice; raises `UsageError` for a part or an option that nobody knows."""


def chosen(experiment: Experiment) -> Iterator[tuple[str, str, PartChoice]]:
    """Every part that the experiment names: its kind, the key that names it, and the choice."""
    single = {
        "loop": experiment.loop,
        "attention": experiment.attention,
        "loss": experiment.loss,
        "data.source": experiment.data.source if experiment.data else None,
    }
    for key, choice in single.items():
        if choice is not None:
            yield key.rpartition(".")[2], key, choice
    for section, kind in (("observers", "observer"), ("trackers", "tracker")):
        for name, options in getattr(experiment, section).items():
            if options is not False:
                yield kind, f"{section}.{name}", PartChoice.model_validate({**options, "name": name})


def check(plugins: KnowsOptions, experiment: Experiment, where: Callable[[str], str]) -> Experiment:
    """Check every choice, fill in the defaults of its options, and check that the loop gets what it needs."""
    faults: list[str] = []
    remedy = ""
    filled: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for kind, key, choice in chosen(experiment):
        try:
            options = plugins.options(kind, choice, key)
        except UsageError as error:
            faults += [f"{where(key)}: {line}" for line in _lines(error, key)]
            remedy = absent.undeclared(experiment) if isinstance(error, UnknownPart) else remedy
            continue
        except LabError as error:  # an options model that cannot be loaded: the plugin's fault, not the experiment's
            error.what = f"{where(key)}: {key}: {error.what}"
            raise
        if kind == "loop":
            plain = {name: value for name, value in PLAIN.items() if _unread(f"train.{name}", options)}
            faults += [f"{where(key)}: {line}" for line in _lacking(experiment, choice.name, options)]
            faults += [f"{where(idle)}: {idle}: {fault}" for idle, fault in _idle(experiment, choice.name, options)]
        filled[key] = {**choice.options, **dumped(options)}
    faults += [f"{where(key)}: {key}: {fault}" for key, fault in _idle_switches(plugins, experiment)]
    if faults:
        raise UsageError("\n".join(faults), remedy)
    return _with(experiment, filled, plain)


def validated(model: type[BaseModel] | None, kind: str, choice: PartChoice, key: str) -> BaseModel | None:
    """The choice's options as an instance of the part's options model.

    Raises `UsageError` naming every option that the model does not know or does not take so.
    """
    given = choice.options
    if kind == "tracker" and (model is None or WHERE not in model.model_fields):
        _check_where(given.pop(WHERE, WHERES[0]), key)
    if model is None:
        if given:
            raise UsageError(f"{key}.{next(iter(given))}: the {kind} '{choice.name}' takes no options")
        return None
    free = model.model_config.get("extra") == "allow"
    unknown = [] if free else [name for name in given if name not in model.model_fields]
    if unknown:  # a model that ignores what it does not know would hide a misspelt option
        raise UsageError("\n".join(unknown_key(f"{key}.{name}", sorted(model.model_fields)) for name in unknown))
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise UsageError("\n".join(explain(error, model, key))) from error


def misdeclared(model: type[BaseModel]) -> str:
    """What is wrong with the `requires` or `reads` of a loop's options model: nobody could fill a misspelt name."""
    for attribute, known in (("requires", tuple(Experiment.model_fields)), ("reads", READABLE)):
        names = getattr(model, attribute, ())
        if not isinstance(names, (tuple, list)):
            return f"{attribute} is {names!r}, not a tuple of names"
        for name in names:
            if name not in known:
                return f"{attribute} names {name!r}, which no loop can ask for. {did_you_mean(str(name), known)}"
    return ""


def dumped(options: BaseModel | None) -> dict[str, Any]:
    """The options as records hold them, without those that are left open."""
    return dict(options.model_dump(mode="json", exclude_none=True)) if options else {}


def _idle_switches(plugins: KnowsOptions, experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Trackers switched off by a name that is nobody's but near a known one: misspelt, and the one meant stays on.

    A tracker whose plugin is not installed here is off as it is.
    """
    for name, options in experiment.trackers.items():
        if options is False:
            try:
                plugins.options("tracker", PartChoice(name=name), f"trackers.{name}")
            except UnknownPart as error:
                if error.do.startswith("Did you mean"):
                    yield f"trackers.{name}", f"{error.what}. {error.do}"
            except LabError:  # options that it would lack if it were on
                continue


def _check_where(value: object, key: str) -> None:
    if value not in WHERES:
        raise UsageError(f"{key}.{WHERE}: must be {' or '.join(map(repr, WHERES))}, not {value!r}")


def _lines(error: UsageError, key: str) -> Iterator[str]:
    """The faults of one part, each with its key in front; what to do stands behind the fault that it belongs to."""
    for line in error.what.splitlines():
        fault = line if line.startswith(key) else f"{key}: {line}"
        yield f"{fault}. {error.do}" if error.do else fault


def _lacking(experiment: Experiment, loop: str, options: BaseModel | None) -> Iterator[str]:
    for section in _declared(options, "requires") or ():
        if getattr(experiment, section, None) is None:
            yield f"{section}: is missing; the loop '{loop}' needs it"


def _idle(experiment: Experiment, loop: str, options: BaseModel | None) -> Iterator[tuple[str, str]]:
    """Settings that the loop says it does not read: each would count as a change, and the records would claim it."""
    for section in FOR_LOOPS:
        if _unread(section, options) and getattr(experiment, section) is not None:
            yield section, f"the loop '{loop}' does not read it, so it would change nothing. Leave it out."
    given = experiment.train.model_fields_set if experiment.train else ()
    for key, plain in PLAIN.items():
        if _unread(f"train.{key}", options) and key in given and getattr(experiment.train, key) != plain:
            fault = f"the loop '{loop}' does not read it, and trains as with {json.dumps(plain)}. Leave it out."
            yield f"train.{key}", fault


def _unread(key: str, options: BaseModel | None) -> bool:
    """Whether the loop's options say what the loop reads, and this is not among it."""
    reads = _declared(options, "reads")
    return reads is not None and key not in (*reads, *(_declared(options, "requires") or ()))


def _declared(options: BaseModel | None, attribute: str) -> tuple[str, ...] | None:
    """What the model says of all its loops; an option may have the same name."""
    return getattr(type(options), attribute, None)


def _with(experiment: Experiment, filled: dict[str, Any], plain: dict[str, Any]) -> Experiment:
    """The experiment with these options in place of those it had, and how a loop trains that reads no such key."""
    changes: dict[str, Any] = {
        section: {
            name: filled.get(f"{section}.{name}", options) for name, options in getattr(experiment, section).items()
        }
        for section in ("observers", "trackers")
    }
    for key in ("loop", "attention", "loss"):
        choice: PartChoice | None = getattr(experiment, key)
        if choice is not None:
            changes[key] = _choice(choice, filled[key])
    if experiment.train is not None:
        changes["train"] = experiment.train.model_copy(update=plain)
    if experiment.data is not None:
        source = _choice(experiment.data.source, filled["data.source"])
        changes["data"] = experiment.data.model_copy(update={"source": source})
    return experiment.model_copy(update=changes)


def _choice(choice: PartChoice, options: dict[str, Any]) -> PartChoice:
    return PartChoice.model_validate({**options, "name": choice.name})
