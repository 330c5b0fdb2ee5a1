"""Loads a data set from the hub that HF_ENDPOINT names (read at import, hence a process), and prints what came."""

from __future__ import annotations

import json
import sys

from lab.errors import LabError
from lab_datasets.options import DatasetsOptions
from lab_datasets.source import Datasets

if __name__ == "__main__":
    answers = []
    for options in json.load(sys.stdin):
        try:
            answers.append([document.text for document in Datasets(DatasetsOptions(**options)).documents()])
        except LabError as error:
            answers.append(error.what)
    json.dump(answers, sys.stdout)
