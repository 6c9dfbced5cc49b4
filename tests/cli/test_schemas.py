"""``astranb schema``: what every command prints with ``--json`` is what its schema says."""

import argparse
import copy
import json
import shlex

import jsonschema
import pytest

from astranb.cli import main, parser
from astranb.cli.schema import SCHEMAS, schema
from astranb.core.errors import InputError
from tests.cli.schema_commands import LINES, make_inputs

DRAFT = "https://json-schema.org/draft/2020-12/schema"
NO_SCHEMA = {"lab", "mcp"}
"""Commands that print no result."""
NOT_RUN = {"runtime"}
"""Commands that use the network."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with what the commands read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place := tmp_path_factory.mktemp("commands"))
        make_inputs()
    return place


def commands(one=None, name=()):
    """Return the names of all commands that do something, as ``collective verify``."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in (one or parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                found |= commands(below, (*name, word))
    return found or {" ".join(name): one}


def test_every_command_with_json_has_a_schema_and_is_tried():
    known = commands()
    taking = {name for name, one in known.items() if "--json" in one._option_string_actions}
    assert known.keys() - taking == NO_SCHEMA
    assert {name_of(name) for name in taking} == SCHEMAS.keys()
    tried = {name for line in LINES for name in taking if line.startswith(f"{name} ") or line == name}
    assert tried | NOT_RUN == taking


def name_of(line):
    """Return the name of the schema of a command as it is typed."""
    words = line.split()
    return next(name for n in (2, 1) if (name := " ".join(words[:n])) in SCHEMAS)


def properties(part, where=""):
    """Yield each described value of a schema: its place, and what says of it."""
    if isinstance(part, dict):
        for name, one in (
            part.get("properties", {}).items() if isinstance(part.get("properties"), dict) else ()
        ):
            yield f"{where}/{name}", one
        for name, one in part.items():
            yield from properties(one, f"{where}/{name}")
    elif isinstance(part, list):
        for number, one in enumerate(part):
            yield from properties(one, f"{where}/{number}")


def said(one):
    """Return the texts of a schema and of what its items and values are."""
    texts = [one.get("description", "")]
    for name in ("items", "additionalProperties"):
        if isinstance(one.get(name), dict):
            texts += said(one[name])
    return [text for text in texts if text]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_valid_and_describes_every_value_with_its_unit(name):
    found = schema(name)
    jsonschema.Draft202012Validator.check_schema(found)
    assert (found["$schema"], found["title"]) == (DRAFT, f"astranb {name} --json")
    for where, one in properties(found):
        key = where.rpartition("/")[2]
        texts = said(one)
        closed = {"$ref", "const", "anyOf", "oneOf", "properties"} & (
            one.keys() | one.get("items", {}).keys()
        )
        assert texts or closed, where
        for ending, unit in (("_ps", "ps"), ("_ns", "ns"), ("_us", "us"), ("_GBps", "10^9 bytes/s")):
            if key.endswith(ending) and one.get("type") in ("integer", "number"):
                assert any(unit in text for text in texts), where


def printed(line, capsys):
    capsys.readouterr()
    code = main([*shlex.split(line), "--json"])
    out, err = capsys.readouterr()
    assert out, err
    return code, json.loads(out)


def changed(document):
    """Yield documents that are wrong in one place, and its name."""
    rows = document if isinstance(document, list) else [document]
    for key, value in [*rows[0].items(), ("unknown", {})]:
        wrong = copy.deepcopy(document)
        (wrong if isinstance(wrong, dict) else wrong[0])[key] = (
            3 if isinstance(value, dict) else {"wrong": []}
        )
        yield key, wrong


@pytest.mark.parametrize("line", LINES)
def test_what_is_printed_is_what_the_schema_says(line, folder, monkeypatch, capsys):
    name = name_of(line)
    monkeypatch.chdir(folder)
    _, document = printed(line, capsys)
    validator = jsonschema.Draft202012Validator(schema(name))
    jsonschema.validate(document, schema(name), jsonschema.Draft202012Validator)
    if name not in ("schema", "plugins"):  # a schema may hold anything; there may be no plug-in
        assert [key for key, wrong in changed(document) if validator.is_valid(wrong)] == []


def test_what_the_network_brings(monkeypatch, capsys, tmp_path):
    from types import SimpleNamespace

    import astranb.browser

    monkeypatch.setattr(astranb.browser, "bring", lambda: {"a": tmp_path / "a"}, raising=False)
    monkeypatch.setattr(
        astranb.browser, "runtime", lambda: [SimpleNamespace(data=b"four")], raising=False
    )  # fmt: skip
    code, document = printed("runtime", capsys)
    assert (code, document["page_bytes"]) == (0, 4)
    jsonschema.validate(document, schema("runtime"), jsonschema.Draft202012Validator)


def test_the_command_lists_names_and_prints_schemas(capsys):
    assert printed("schema", capsys) == (0, list(SCHEMAS))
    assert main(["schema"]) == 0
    assert capsys.readouterr().out.splitlines() == list(SCHEMAS)
    for words in ("collective verify", "collective.verify"):
        assert printed(f"schema {words}", capsys) == (0, schema("collective verify"))
    assert main(["schema", "run"]) == 0
    assert json.loads(capsys.readouterr().out) == schema("run")
    assert main(["schema", "rnu"]) == 2
    assert capsys.readouterr().err == "astranb: schema: unknown command 'rnu'; did you mean 'run'?\n"
    with pytest.raises(InputError, match="known: chakra check"):
        schema("x" * 1000)
