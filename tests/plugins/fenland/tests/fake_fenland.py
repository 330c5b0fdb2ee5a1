"""Fenland on this machine: one address, boxes that are processes, and a purse that counts."""

from __future__ import annotations

import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lab.conformance import StandIn

PASS = "fen-" + "7" * 28
BOX_PASS = "box-" + "1" * 28
"""May park, and nothing else."""
MODEL = "Fen G2"
PAGE = 2


class Fault(Exception):
    """An answer that is not fine."""


class Fenland:
    """`with Fenland(folder) as cloud:`; `cloud.address` is where it is asked, `cloud.asked` what it was asked."""

    def __init__(self, folder):
        self.folder = folder
        self.boxes, self.machines, self.asked, self.faults = {}, {}, [], {}
        self._numbers = itertools.count(101)
        self._lock = threading.Lock()
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(cloud.answer(call, self.headers["X-Fenland-Pass"])).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/call"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        for machine in self.machines.values():
            machine.discard()

    @property
    def alive(self):
        """The boxes that cost something."""
        return [number for number, box in self.boxes.items() if box["phase"] != "dropped"]

    def answer(self, call, key):
        with self._lock:
            self.asked.append(call["do"])
            try:
                if key != PASS and not (key == BOX_PASS and call["do"] == "boxes.park"):
                    raise Fault("WHO_ARE_YOU")
                if self.faults.get(call["do"]):
                    raise Fault(self.faults[call["do"]].pop(0))
                return {"fine": True, "result": getattr(self, call["do"].replace(".", "_"))(**call["with"])}
            except Fault as fault:
                return {"fine": False, "fault": {"word": str(fault), "says": "no", "ticket": "T1", "wait_ms": 2000}}

    def shelf_look(self):
        kind = {"model": MODEL, "cards": 1, "cents_per_minute": "1.25", "free": 4, "sites": ["north", "south"]}
        gone = {"model": "Fen G9", "cards": 1, "cents_per_minute": "9.99", "free": 0, "sites": ["north"]}
        return {"kinds": [kind, gone]}

    def boxes_launch(self, **order):
        number = next(self._numbers)
        self.machines[number] = StandIn(self.folder / str(number), [order["model"]])
        box = {**order, "box": number, "phase": "queued", "cents_per_minute": "1.25", "since": int(time.time() * 1000)}
        self.boxes[number] = box
        self._boot(number)
        return self._seen(number)

    def boxes_show(self, box):
        self._advance(self._found(box))
        return self._seen(int(box))

    def boxes_all(self, after):
        numbers = [number for number in self.alive if number > after]
        return {"boxes": [self._seen(number) for number in numbers[:PAGE]], "more": len(numbers) > PAGE}

    def boxes_park(self, box):
        self._phase(box, {"queued", "pulling", "up"}, "parked")
        self.machines[int(box)].halt()

    def boxes_wake(self, box):
        self._phase(box, {"parked"}, "queued")
        self._boot(int(box))

    def boxes_drop(self, box):
        self._phase(box, {"queued", "pulling", "up", "parked", "broken"}, "dropped")
        self.machines[int(box)].discard()

    def boxes_console(self, box):
        return {"lines": self._found(box).get("console", [])}

    def _found(self, box):
        number = int(box)
        if number not in self.boxes or self.boxes[number]["phase"] == "dropped":
            raise Fault("NO_SUCH_BOX")
        return self.boxes[number]

    def _phase(self, box, allowed, phase):
        found = self._found(box)
        if found["phase"] not in allowed:
            raise Fault("WRONG_PHASE")
        found["phase"] = phase

    def _boot(self, number):
        box = self.boxes[number]
        own = {"FENLAND_BOX": str(number), "FENLAND_BOX_PASS": BOX_PASS}
        self.machines[number].boot(
            box["run"], {**dict(box["vars"]), **own}, port=box["open_port"], mount_path=box["data"]["path"]
        )

    @staticmethod
    def _advance(box):
        """Every look finds a box one phase further, until it is up."""
        phases = ["queued", "pulling", "up"]
        if box["phase"] in phases[:-1]:
            box["phase"] = phases[phases.index(box["phase"]) + 1]

    def _seen(self, number):
        """What an answer shows: doors only while it is up, and nothing of how it was ordered."""
        box = self.boxes[number]
        doors = {str(box["open_port"]): self.machines[number].address} if box["phase"] == "up" else {}
        hidden = {"run", "open_port", "root_gib", "console"}
        return {**{key: value for key, value in box.items() if key not in hidden}, "doors": doors}
