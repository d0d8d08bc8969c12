"""Placeholders and templates: unknown names are errors, with the line in a template."""

from __future__ import annotations

import pytest

from fidelium.errors import EvaluationError, SettingError, SetupError
from fidelium.execution.substitution import (
    check_parameter_names,
    check_placeholders,
    check_shell_command,
)
from fidelium.execution.templates import check_template, render


@pytest.fixture
def deck(tmp_path):
    def write(text):
        (tmp_path / "deck.j2").write_text(text)
        return tmp_path / "deck.j2"

    return write


def test_a_template_keeps_its_text_and_its_last_line_end(deck):
    text = "a{% for i in range(2) %} {{ i * x }}{% endfor %} {{ params['young modulus'] }} {{ none_ }}{# gone #}\n\n"
    values = {"x": 0.5, "params": {"young modulus": "<&>"}, "none_": None}
    check_template(deck(text), values)
    assert render(deck(text), values) == "a 0.0 0.5 <&> null\n\n"


def test_a_template_may_include_its_neighbour(deck, tmp_path):
    (tmp_path / "material.j2").write_text("E={{ x }}")
    assert render(deck("{% include 'material.j2' %}"), {"x": 3}) == "E=3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n{{ yung }}", r"template deck\.j2, line 3: unknown name 'yung'; did you mean young\?"),
        ("\n{{ young ", r"template deck\.j2, line 2: unexpected end of template"),
        ("{% for %}", r"template deck\.j2, line 1: "),
    ],
)
def test_check_template_reports_the_line(deck, text, message):
    with pytest.raises(SettingError, match=message):
        check_template(deck(text), ["young", "params"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n{{ params.yung }}", r"template deck\.j2, line 2: 'dict object' has no attribute 'yung'"),
        ("{{ young", r"template deck\.j2, line 1: "),
        ("{% include 'gone.j2' %}", r"template deck\.j2: 'gone\.j2' not found in "),
    ],
)
def test_render_reports_the_line(deck, text, message):
    with pytest.raises(SetupError, match=message):
        render(deck(text), {"young": 1.0, "params": {}})


@pytest.mark.parametrize("formula", ["1 / (young - young)", "sqrt(-young)", "exp(1e9 * young)", "log(young - young)"])
def test_arithmetic_that_fails_is_the_fault_of_the_design(deck, formula):
    with pytest.raises(EvaluationError, match=r"template deck\.j2, line 3: "):
        render(deck(f"\n\n{{{{ {formula} }}}}"), {"young": 1.0})


def test_a_template_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SettingError, match=r"cannot read the template .*gone\.j2': No such file"):
        check_template(tmp_path / "gone.j2", [])
    (tmp_path / "binary.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingError, match="is not UTF-8 text"):
        check_template(tmp_path / "binary.j2", [])


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a{yung}", r"unknown name {yung} in 'a{yung}'; did you mean {young}\?"),
        ("{b}", r"unknown name {b} .*known names: young"),
        ("{}", "unknown name {}"),
        ("{", "unmatched '{' in '{'"),
        ("}}}", "unmatched '}'"),
    ],
)
def test_unknown_names_are_rejected(pattern, message):
    with pytest.raises(SettingError, match=message):
        check_placeholders(pattern, ["young"])


def test_a_value_is_never_part_of_a_shell_command():
    with pytest.raises(SettingError, match=r"{young} is not allowed in a shell command"):
        check_shell_command("solve {young}", ["young"])
    check_shell_command("echo ${HOME} ${young} | awk '{print $1}'", ["young"])  # these braces are the shell's and awk's


def test_a_parameter_must_not_have_a_reserved_name():
    with pytest.raises(SettingError, match=r"'cost' is reserved.*rename the parameter 'cost'"):
        check_parameter_names(["young", "cost"])
