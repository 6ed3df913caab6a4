"""Reads a run's reports with programs that are not ours: junitparser, lxml, the Jenkins schema.

usage: check_reports.py RUN_DIR EXIT_CODE
"""

import copy
import json
import pathlib
import sys

import junitparser
from lxml import etree

run = pathlib.Path(sys.argv[1])
junit = run / "junit.xml"

suites = junitparser.JUnitXml.fromfile(str(junit))
cases = [case for suite in suites for case in suite]
assert cases, "junit.xml has no test case"
assert suites.tests == len(cases), (suites.tests, len(cases))
assert all(case.name and case.classname for case in cases)

result = json.loads((run / "run.json").read_text())
assert result["schema_version"] == 1 and result["exit_code"] == int(sys.argv[2]), result
assert result["total_cost_usd"] is not None, "run.json has no cost"
prompts = [prompt for job in result["jobs"] for prompt in job["prompts"]]
checks = sum(len(prompt["checks"]) for prompt in prompts)
assert len(cases) == len(prompts) + checks

calls = 0
for prompt in prompts:
    lines = (run / prompt["transcript"]).read_text().splitlines()
    blocks = []
    for line in lines:
        event = json.loads(line)
        if event["type"] in ("user", "assistant"):
            blocks += event["message"]["content"]
    called = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert sorted(called) == sorted(answered), (called, answered)
    calls += len(called)

assert calls, "no tool was called"

# `file` and `line` are for GitHub's reporters; the schema does not know them.
tree = etree.parse(str(junit))
bare = copy.deepcopy(tree)
for case in bare.iter("testcase"):
    for name in ("file", "line"):
        case.attrib.pop(name, None)
schema = pathlib.Path(__file__).resolve().parent.parent / "fixtures/junit/junit-10.xsd"
etree.XMLSchema(etree.parse(str(schema))).assertValid(bare)

for outcome, count in (("failed", suites.failures), ("errored", suites.errors), ("skipped", suites.skipped)):
    checks_failed = sum(not check["passed"] for p in prompts for check in p["checks"]) if outcome == "failed" else 0
    expected = sum(prompt["outcome"] == outcome for prompt in prompts) + checks_failed
    assert count == expected, (outcome, count, expected)

print(f"{len(cases)} cases, {len(prompts)} prompts, every call answered, ${result['total_cost_usd']}")
