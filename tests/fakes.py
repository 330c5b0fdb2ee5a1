"""Small real classes that stand in for machines, clouds and slow parts; each room appends its own."""

from __future__ import annotations

from lab.contracts import Quote, Receipt


class ListSource:
    """Documents from a list; records how far it was read and whether it was closed."""

    def __init__(self, texts, name="list"):
        self.texts, self.name = list(texts), name
        self.read, self.closed = 0, False

    def identity(self):
        return {"name": self.name, "texts": len(self.texts)}

    def documents(self, cursor=None):
        from lab.contracts import Document

        try:
            for number in range(cursor["number"] if cursor else 0, len(self.texts)):
                self.read += 1
                text = self.texts[number]
                yield text if isinstance(text, Document) else Document(text, {"number": number + 1})
        finally:
            self.closed = True


class ByteTokenizer:
    """One token for each byte of UTF-8; refuses the text "untokenisable"."""

    name, revision, sha256, vocabulary, eos = "bytes", "1", "b" * 64, 257, 256

    def __init__(self, **changes):
        self.__dict__.update(changes)

    def encode(self, text):
        import numpy as np

        if text == "untokenisable":
            raise ValueError("no rule fits")
        return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.uint32)

    def decode(self, ids):
        return bytes(ids[ids < 256].tolist()).decode(errors="replace")

    def token_bytes(self):
        import numpy as np

        return np.array([1] * 256 + [0], dtype=np.uint16)

    def record(self):
        return {key: getattr(self, key) for key in ("name", "revision", "sha256", "vocabulary", "eos")}


class TokenDocuments:
    """A split of token lists, as a sampler takes it."""

    def __init__(self, documents):
        import numpy as np

        self.lengths = np.array([len(document) for document in documents], dtype=np.int64)
        self.tokens = np.array([token for document in documents for token in document], dtype=np.uint32)


class ScriptedBackend:
    """A backend that plays one `JobState` after the other, and writes what a job would have written meanwhile.

    `script` holds (state, action) pairs: `action(run)` is called when the state is first asked for. Every call is
    noted by name in `calls`.
    """

    def __init__(self, *script, refuses=None):
        self.script, self.refuses = list(script), refuses
        self.calls = []
        self.run = self.job = None

    def quote(self, job):
        return Quote("a scripted machine")

    def submit(self, job, run):
        self.calls.append("submit")
        self.job, self.run = job, run
        if self.refuses is not None:
            raise self.refuses
        return Receipt("scripted", run.id, "handle-1")

    def state(self, receipt):
        state, action = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if action is not None:
            action(self.run)
        return state

    def records(self, receipt, run):
        pass

    def fetch(self, receipt, run):
        self.calls.append("fetch")
        return []

    def stop(self, receipt):
        self.calls.append("stop")

    def delete(self, receipt):
        self.calls.append("delete")


class RecordingView:
    """Keeps what a run would have shown."""

    def __init__(self):
        self.stages, self.metrics, self.notices, self.closed = [], [], [], False

    def stage(self, line):
        self.stages.append(line)

    def metric(self, line):
        self.metrics.append(line)

    def notice(self, text):
        self.notices.append(text)

    def tick(self):
        pass

    def close(self):
        self.closed = True


class NoTrackers:
    """Stands for the trackers of a run that has none."""

    def start(self):
        pass

    def tend(self):
        pass

    def finish(self, stopped):
        pass
