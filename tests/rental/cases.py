"""The faults that live in the lifecycle: how each is made, and the state in which the run must end.

The numbers are those of the list of faults that the state machine was designed against; `docs/faults.md` names them.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lab.rental.agent_contract import AgentRefused, AgentUnreachable, Skipped
from lab.rental.facts import State
from lab.rental.provider import (
    Conflict,
    Forbidden,
    Gone,
    NoCapacity,
    NoCredit,
    NotAuthorized,
    RateLimited,
    RequestRejected,
    UncertainOutcome,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rental.virtual import Fault
    from rental.world import World

PLOT = {"summary.json": b"{}\n", "plot.png": b"p" * 50}
"""A result that comes home only at the end."""
MANY = 10_000
LOST_ANSWER = UncertainOutcome("500: internal server error")
NO_ANSWER = AgentUnreachable("HTTP 502, and not in the agent's words")


@dataclass(frozen=True)
class Case:
    """One fault. `arm` returns what must have fired; `play` is what the person does, `lab run` by default."""

    number: int
    what: str
    arm: Callable[[World], list[Fault]]
    end: State
    exit_code: int | None = 0
    """What the job's exit record says in the end; None when there is none."""
    creates: int | None = 1
    """How many create requests may have been sent."""
    play: Callable[[World], None] = lambda world: world.go()
    options: dict[str, Any] = field(default_factory=dict)


def one(world: World) -> Any:
    """The only machine."""
    (machine,) = world.cloud.machines.values()
    return machine


def arm(operation: str, **what: Any) -> Callable[[World], list[Fault]]:
    return lambda world: [world.cloud.trace.arm(operation, **what)]


def setting(**changes: Any) -> Callable[[World], list[Fault]]:
    """A cloud that is so from the beginning; there is no moment at which it fires."""

    def change(world: World) -> list[Fault]:
        for name, value in changes.items():
            setattr(world.cloud, name, value)
        return []

    return change


def script(**changes: Any) -> Callable[[World], list[Fault]]:
    def change(world: World) -> list[Fault]:
        world.cloud.script = replace(world.cloud.script, **changes)
        return []

    return change


def together(*arms: Callable[[World], list[Fault]]) -> Callable[[World], list[Fault]]:
    return lambda world: [fault for arm_one in arms for fault in arm_one(world)]


def created_later(world: World) -> list[Fault]:
    def instead(effect: Callable[[], Any]) -> Any:
        world.clock.later(40.0, effect)
        world.clock.sleep(60.0)
        raise UncertainOutcome("the answer did not come in time")

    world.cloud.list_lag = 60.0
    return [world.cloud.trace.arm("create", instead=instead)]


def namesake(world: World) -> list[Fault]:
    """A stranger's machine gets our name before our answer is lost."""

    def instead(effect: Callable[[], Any]) -> Any:
        ours = effect()
        world.cloud.strangers.append(replace(ours, id="foreign1", environment={"LAB_NONCE": "not ours"}, created="1"))
        raise LOST_ANSWER

    return [world.cloud.trace.arm("create", instead=instead)]


def two_made(world: World) -> list[Fault]:
    """The cloud carries the one request out twice."""

    def instead(effect: Callable[[], Any]) -> Any:
        effect()
        effect()
        raise LOST_ANSWER

    return [world.cloud.trace.arm("create", instead=instead)]


def happens(operation: str, act: Callable[[World], None], nth: int = 1) -> Callable[[World], list[Fault]]:
    """Something happens in the world at the nth call of an operation."""
    return lambda world: [world.cloud.trace.arm(operation, nth=nth, act=lambda: act(world))]


def shown_as(status: str, nth: int = 1, times: int = MANY) -> Callable[[World], list[Fault]]:
    return arm("get", nth=nth, times=times, answer=lambda machine: replace(machine, status=status, status_text="NEW"))


def shortened(pieces: list[bytes]) -> list[bytes]:
    return pieces[: len(pieces) // 2]


def flipped(pieces: list[bytes]) -> list[bytes]:
    return [bytes([pieces[0][0] ^ 1]) + pieces[0][1:], *pieces[1:]] if pieces else pieces


def slow(world: World) -> list[Fault]:
    def instead(effect: Callable[[], Any]) -> Any:
        pieces = effect()
        world.clock.sleep(60.0)
        return [pieces[0][:100]] if pieces else pieces

    world.cloud.script = replace(world.cloud.script, results={"summary.json": b"{}", "big.bin": b"b" * 100_000})
    return [world.cloud.trace.arm("agent.blob", times=MANY, instead=instead)]


def gives_up_late(world: World) -> list[Fault]:
    def instead(effect: Callable[[], Any]) -> Any:
        effect()
        world.clock.sleep(100.0)
        raise NO_ANSWER

    return [world.cloud.trace.arm("agent.start", instead=instead)]


def dice(world: World) -> list[Fault]:
    """Every seventh request to the machine fails."""
    operations = ("hello", "limits", "present", "put_chunk", "commit", "start", "poll", "manifest", "blob", "pin")
    return [
        world.cloud.trace.arm(f"agent.{operation}", nth=nth, before=NO_ANSWER)
        for operation in operations
        for nth in range(1, 200, 7)
    ]


def offline(operation: str, seconds: float = 240.0) -> Callable[[World], list[Fault]]:
    """The laptop loses its network at this moment, for a while."""

    def act(world: World) -> None:
        world.cloud.offline = True
        world.clock.later(seconds, lambda: setattr(world.cloud, "offline", False))

    return happens(operation, act)


def ctrl_c(operation: str, nth: int = 1) -> Callable[[World], list[Fault]]:
    return happens(operation, lambda _: signal.raise_signal(signal.SIGINT), nth)


def halted(world: World) -> None:
    """`lab run`, then `lab rentals stop` while the job runs."""
    backend = world.backend()
    world.submit(backend)
    for _ in range(5):
        backend.state(world.receipt)
        world.clock.sleep(10)
    world.attempt(lambda: world.backend().halt(world.receipt))


def halted_and_started(world: World) -> None:
    halted(world)
    world.attempt(lambda: world.backend().start(world.receipt))
    if world.state is State.RUNNING:
        world.finish()


def and_collected(world: World) -> None:
    """`lab run`, then `lab rentals collect` once the trouble is over."""
    world.go()
    world.attempt(lambda: world.backend().collect(world.receipt))


def and_any_command(world: World) -> None:
    world.go()
    world.any_command()


def another_key(world: World) -> None:
    backend = world.backend()
    world.submit(backend)
    world.cloud.key = "key-2"
    world.attempt(lambda: world.backend().terminate(world.receipt))
    assert world.state is State.RUNNING
    assert world.cloud.trace.count("delete") == 0
    world.cloud.key = "key-1"
    world.finish()


def laptop_sleeps(world: World) -> None:
    backend = world.backend()
    world.submit(backend)
    backend.state(world.receipt)
    world.clock.laptop_sleeps(7200)
    world.finish(backend)
    world.attempt(lambda: world.backend().collect(world.receipt))


def abandoned(world: World) -> None:
    """The controller is gone for a day; then somebody looks."""
    world.submit()
    world.clock.sleep(3600)
    world.clock.sleep(23 * 3600)
    world.any_command()
    world.attempt(lambda: world.backend().collect(world.receipt))


CASES = [
    Case(1, "create answers 500, the machine exists", arm("create", after=LOST_ANSWER), State.DELETED),
    Case(2, "create times out, the machine appears 40 s later, lists lag 60 s", created_later, State.DELETED),
    Case(3, "create is reset before it was processed", arm("create", before=LOST_ANSWER), State.DELETED, creates=2),
    Case(4, "the answer to create is torn", arm("create", after=UncertainOutcome("no JSON")), State.DELETED),
    Case(4, "one create request makes two machines", two_made, State.DELETED),
    Case(5, "the answer to create has no price", setting(change_created={"dollars_per_hour": None}), State.NO_MACHINE,
         None, 2),
    Case(6, "no capacity for the first candidate", arm("create", before=NoCapacity("no instances")), State.DELETED,
         creates=2),
    Case(7, "400 for all candidates", arm("create", times=MANY, before=NoCapacity("objectMounts")), State.NO_MACHINE,
         None, 2),
    Case(8, "no credit", arm("create", before=NoCredit("402")), State.NO_MACHINE, None, 1),
    Case(9, "403: not this pool", arm("create", before=Forbidden("403")), State.DELETED, creates=2),
    Case(10, "the edge blocks the create request", arm("create", before=Unreachable("error code: 1010")),
         State.DELETED, creates=2),
    Case(11, "422 unknown field", arm("create", before=RequestRejected("422")), State.NO_MACHINE, None, 1),
    Case(12, "413 body too large", arm("create", before=RequestRejected("413")), State.NO_MACHINE, None, 1),
    Case(13, "429 on create", arm("create", times=2, before=RateLimited("429", 30.0)), State.DELETED, creates=3),
    Case(13, "429 on every read for a while", arm("get", times=4, before=RateLimited("429", 30.0)), State.DELETED),
    Case(14, "410 on create", arm("create", before=Gone("410")), State.NO_MACHINE, None, 1),
    Case(14, "410 later", arm("get", nth=2, before=Gone("410")), State.DELETED, None, play=and_any_command),
    Case(15, "the key is revoked while the machine boots", arm("get", nth=2, times=MANY, before=NotAuthorized("401")),
         State.ATTENTION, None),
    Case(16, "the real price is above the cap", setting(price=3.0), State.NO_MACHINE, None, 2,
         options={"max_price": 2.5}),
    Case(17, "no disk that survives a stop", setting(change_created={"mount_path": None}), State.NO_MACHINE, None, 2),
    Case(19, "GET knows the machine only after 10 s", setting(get_lag=10.0), State.DELETED),
    Case(20, "lists lag 60 s", setting(list_lag=60.0), State.DELETED),
    Case(21, "half listings while it is deleted", arm("list", times=12, before=Unreachable("page 2")), State.DELETED),
    Case(21, "no complete listing after a lost answer",
         together(arm("create", after=LOST_ANSWER), arm("list", times=12, before=Unreachable("cursor loops"))),
         State.DELETED),
    Case(22, "a stranger's machine has the same name", namesake, State.DELETED),
    Case(23, "a status that nobody knows", shown_as("unknown"), State.DELETED),
    Case(24, "empty listings for longer than the window",
         together(arm("create", after=LOST_ANSWER), arm("list", times=12, answer=lambda _: ())),
         State.DELETED, creates=2, play=and_any_command),
    Case(25, "RUNNING at once, the agent after 80 s", setting(boot_seconds=80.0), State.DELETED),
    Case(26, "never ready, a container error in the host's log",
         setting(never_ready=True, logs=["OCI runtime create failed: cuda>=12.8"]), State.NO_MACHINE, None, 2),
    Case(27, "the image is pulled for ever",
         setting(never_ready=True, logs=["toomanyrequests: pull rate limit"]), State.NO_MACHINE, None, 2),
    Case(28, "the cloud says ERROR", shown_as("failed", times=1), State.DELETED, creates=2),
    Case(29, "it starts for ever", together(setting(never_ready=True), shown_as("starting")), State.NO_MACHINE,
         None, 2),
    Case(30, "it is stopped while it boots", happens("get", lambda world: one(world).halt(), 3), State.DELETED, None),
    Case(31, "it is deleted by somebody while it boots", happens("get", lambda world: one(world).vanish(), 3),
         State.LOST, None),
    Case(31, "the same, still listed as terminated",
         together(setting(linger=90.0), happens("get", lambda world: one(world).vanish(), 3)), State.DELETED, None),
    Case(32, "no GPU in the machine",
         arm("agent.hello", times=MANY, answer=lambda hello: replace(hello, gpus=())), State.NO_MACHINE, None, 2),
    Case(33, "404, then 502, then the agent", arm("agent.hello", times=6, before=NO_ANSWER), State.DELETED),
    Case(34, "a page of nginx with status 200",
         arm("agent.hello", times=6, before=AgentUnreachable("HTTP 200, and not in the agent's words")), State.DELETED),
    Case(35, "the proxy gives up after 100 s, the job was started",
         gives_up_late, State.DELETED),
    Case(36, "every seventh request fails", dice, State.DELETED),
    Case(37, "resets in the middle, both ways",
         together(arm("agent.put_chunk", times=2, after=NO_ANSWER),
                  arm("agent.blob", times=3, answer=lambda pieces: [*shortened(pieces), NO_ANSWER])), State.DELETED),
    Case(38, "bodies shorter than they should be", arm("agent.blob", times=3, answer=shortened), State.DELETED),
    Case(39, "a flipped byte, twice", arm("agent.blob", times=2, answer=flipped), State.DELETED),
    Case(39, "a flipped byte on every try, then not any more",
         together(script(results={"summary.json": b"{}", "checkpoint.pt": b"w" * 500}),
                  arm("agent.blob", times=40, answer=flipped)), State.STOPPED),
    Case(40, "a cache answers with other bytes", arm("agent.blob", answer=lambda _: [b"old" * 100]), State.DELETED),
    Case(42, "the route leads to the old boot",
         together(script(seconds=3000.0),
                  arm("agent.hello", nth=2, times=8, answer=lambda hello: replace(hello, boot_id="x"))),
         State.DELETED, play=halted_and_started),
    Case(43, "another service answers",
         arm("agent.hello", times=6, answer=lambda hello: replace(hello, nonce="another")), State.DELETED),
    Case(45, "1 KB/s", slow, State.STOPPED),
    Case(47, "the answer to the job's start is lost", arm("agent.start", after=NO_ANSWER), State.DELETED),
    Case(48, "the container restarts during the upload",
         happens("agent.put_chunk", lambda world: one(world).restart()), State.DELETED),
    Case(48, "the container restarts during the run",
         happens("agent.poll", lambda world: one(world).restart(), 5), State.DELETED, None),
    Case(48, "the container restarts after the run",
         happens("agent.manifest", lambda world: one(world).restart()), State.DELETED),
    Case(49, "the disk is full at the upload",
         arm("agent.commit", before=AgentRefused("no-space", "the disk is full")), State.DELETED, None),
    Case(49, "the disk is full at a checkpoint",
         script(exit_code=1, reason="No space left on device"), State.DELETED, 1),
    Case(50, "packages cannot be installed", script(seconds=20.0, exit_code=1, results={}), State.DELETED, 1),
    Case(51, "the worker is killed for memory", script(exit_code=None), State.DELETED, 137),
    Case(51, "the worker hangs", script(seconds=1e9), State.DELETED, 143),
    Case(52, "an output changes after it was listed",
         together(script(results=PLOT),
                  happens("agent.manifest", lambda world: one(world).disk.update(changed={"plot.png": b"P" * 50}), 2)),
         State.DELETED, play=and_collected),
    Case(53, "an output disappears after it was listed",
         together(script(results=PLOT),
                  happens("agent.manifest", lambda world: one(world).disk.update(removed=("plot.png",)), 2)),
         State.DELETED, play=and_collected),
    Case(54, "names that lead out of the folder, links, many tiny files",
         script(results={"summary.json": b"{}", "../escape": b"no", "/etc/escape": b"no", "config.json": b"no",
                         "a b.txt": b"1", "x;touch PWNED": b"2", "$(id).log": b"3", "\u00fcn\u00ef.txt": b"4",
                         "line\nbreak": b"no", **{f"tiny/{n}": b"" for n in range(300)}},
                skipped=(Skipped("latest", "it is a link"),),
                refused=("../escape", "/etc/escape", "config.json", "line\nbreak")), State.DELETED),
    Case(55, "the laptop's clock is set an hour ahead",
         happens("agent.poll", lambda world: setattr(world.clock, "jump", 3600.0), 5), State.DELETED),
    Case(55, "the laptop's clock is set an hour back",
         happens("agent.poll", lambda world: setattr(world.clock, "jump", -3600.0), 5), State.DELETED),
    Case(56, "the machine knows another token",
         arm("agent.hello", times=MANY, before=AgentRefused("unauthorized", "belongs to another run")),
         State.DELETED, None),
    Case(57, "stop answers 500 and is done", arm("stop", after=LOST_ANSWER), State.STOPPED, 143, play=halted),
    Case(58, "stop is accepted and nothing happens, twice", arm("stop", times=2, instead=lambda _: None),
         State.STOPPED, 143, play=halted),
    Case(58, "stop never does anything", arm("stop", times=MANY, instead=lambda _: None), State.ATTENTION, 143,
         play=halted),
    Case(58, "stop never does anything, the second way works",
         together(setting(second_way=True), arm("stop", times=MANY, instead=lambda _: None)),
         State.STOPPED, 143, play=halted),
    Case(59, "409 on stop", arm("stop", before=Conflict("409")), State.STOPPED, 143, play=halted),
    Case(60, "no GPU is free when it shall start again",
         together(script(seconds=3000.0), setting(no_gpu_on_start=True)), State.STOPPED, None, play=halted_and_started),
    Case(61, "a deleted machine is listed for 60 s", setting(linger=60.0), State.DELETED),
    Case(62, "a deleted machine lives on", arm("delete", instead=lambda _: None), State.DELETED),
    Case(62, "a machine cannot be deleted", arm("delete", times=MANY, instead=lambda _: None), State.ATTENTION),
    Case(63, "a later command has another account's key", setting(), State.DELETED, play=another_key),
    Case(64, "delete answers 500 and is done", arm("delete", after=LOST_ANSWER), State.DELETED),
    Case(64, "delete fails until the second way is tried",
         together(setting(second_way=True), arm("delete", times=MANY, before=LOST_ANSWER)), State.DELETED),
    Case(65, "the machine may not stop itself", setting(self_stop_works=False), State.DELETED, play=abandoned),
    Case(69, "the laptop sleeps for two hours", setting(), State.DELETED, play=laptop_sleeps),
    Case(70, "no network when the machine is asked for", offline("create"), State.DELETED, creates=2),
    Case(70, "no network while it boots", offline("agent.hello"), State.DELETED),
    Case(70, "no network during the upload", offline("agent.put_chunk"), State.DELETED),
    Case(70, "no network during the run", offline("agent.poll", 900.0), State.DELETED),
    Case(70, "no network until the machine has stopped itself", offline("agent.poll", 2400.0), State.STOPPED, None),
    Case(70, "no network during the download", offline("agent.blob"), State.DELETED),
    Case(70, "no network during the deletion", offline("delete"), State.DELETED),
    Case(71, "Ctrl-C while the machine is asked for", ctrl_c("create"), State.DELETED, None),
    Case(71, "Ctrl-C during the upload", ctrl_c("agent.put_chunk"), State.DELETED, None),
    Case(71, "Ctrl-C during the download", together(script(results=PLOT | {"z.png": b"z"}), ctrl_c("agent.blob", 2)),
         State.STOPPED),
    Case(71, "Ctrl-C during the deletion", ctrl_c("delete"), State.DELETED),
    Case(72, "the balance is used up and the machine vanishes",
         happens("agent.poll", lambda world: one(world).vanish(), 5), State.LOST, None),
]  # fmt: skip
