"""Jinja templates: what is valid is accepted, and an unknown name is an error with its line."""

from __future__ import annotations

import math

import pytest

from fidelium.errors import SettingError, SetupError
from fidelium.execution.templates import check_template, render

VALUES = {"x": 0.5, "n": 3, "fidelity": "coarse", "params": {"young modulus": 2}, "glue": "epoxy"}


@pytest.fixture
def deck(tmp_path):
    (tmp_path / "part.j2").write_text("<{{ x }}>")
    (tmp_path / "macros.j2").write_text("{% macro node(i) %}N{{ i }}{% endmacro %}")
    (tmp_path / "base.j2").write_text("begin {% block body %}{% endblock %} end")

    def write(text):
        (tmp_path / "deck.j2").write_text(text)
        return tmp_path / "deck.j2"

    return write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{% if fidelity == "coarse" %}{% set k = 3 %}{% else %}{% set k = 8 %}{% endif %}{{ k }}', "3"),
        ("{% set k = 2 %}{{ k * x }}", "1.0"),
        ("{% set k %}a{{ n }}{% endset %}{{ k }}", "a3"),
        ("{% set a, b = 1, 2 %}{{ a + b }}", "3"),
        ("{% for i in range(n) %}{{ i }}{{ ',' if not loop.last }}{% endfor %}", "0,1,2"),
        ("{% for i in [] %}{{ i }}{% else %}none{% endfor %}", "none"),
        ("{% for key, value in params.items() %}{{ key }}={{ value }}{% endfor %}", "young modulus=2"),
        ("{% for i in range(3) if i != 1 %}{{ i }}{% endfor %}", "02"),
        ("{% set s = namespace(t=0) %}{% for i in range(4) %}{% set s.t = s.t + i %}{% endfor %}{{ s.t }}", "6"),
        ("{% macro twice(v, w=1) %}{{ v * 2 + w }}{% endmacro %}{{ twice(x) }} {{ twice(n, w=0) }}", "2.0 6"),
        ("{% macro box() %}[{{ caller() }}]{% endmacro %}{% call box() %}{{ x }}{% endcall %}", "[0.5]"),
        ("{% macro all() %}{{ varargs | sum }}{{ kwargs | length }}{% endmacro %}{{ all(1, 2, k=3) }}", "31"),
        ("{% with k = n + 1 %}{{ k }}{% endwith %}", "4"),
        ("{% filter upper %}{{ glue }}{% endfilter %}", "EPOXY"),
        ("{{ '%.3e' % x }} {{ '%05d' | format(n) }} {{ x | round(1) }}", "5.000e-01 00003 0.5"),
        ("{% include 'part.j2' %}{% include 'gone.j2' ignore missing %}", "<0.5>"),
        ("{% import 'macros.j2' as m %}{{ m.node(1) }}", "N1"),
        ("{% from 'macros.j2' import node, node as knot %}{{ node(1) }}{{ knot(2) }}", "N1N2"),
        ("{% extends 'base.j2' %}{% block body %}{{ x }}{% endblock %}", "begin 0.5 end"),
        ("{% set t = cycler('a', 'b') %}{{ t.next() }}{{ t.next() }}{{ t.next() }}", "aba"),
        ("{% if k is defined %}{{ k }}{% else %}no{% endif %}{% set k = 1 %}", "no"),
        ("{% raw %}{{ not a name }}{% endraw %}{# nor {{ this }} #}", "{{ not a name }}"),
        ("{{ [1, 2, 3] | map('string') | join(' ') }} {{ {'a': 1}['a'] }} {{ 7 // 2 }} {{ 2 ** n }}", "1 2 3 1 3 8"),
        ("{{ glue == 'epoxy' }} {{ none }}", "true null"),
        ("{{ sqrt(4) }} {{ sin(pi / 2) }} {{ atan2(0, 1) }} {{ floor(2.7) }} {{ ceil(x) }}", "2.0 1.0 0.0 2 1"),
        ("{{ cos(0) + tan(0) + asin(0) + acos(1) + atan(0) }}", "1.0"),
        ("{{ exp(0) }} {{ log(1) }} {{ log10(100) }}", "1.0 0.0 2.0"),
        ("{{ min(x, 1) }} {{ max(x, 1) }} {{ abs(-x) }} {{ -x | abs }}", "0.5 1 0.5 0.5"),
        ("{{ degrees(pi) }} {{ radians(0) }}", "180.0 0.0"),
    ],
)
def test_valid_jinja_is_accepted(deck, text, expected):
    check_template(deck(text), VALUES)
    assert render(deck(text), VALUES) == expected


def test_a_parameter_hides_a_function_of_the_same_name(deck):
    path = deck("{{ pi }} {{ log }} {{ cos(0) }}")
    values = {"pi": 3, "log": "steel.log"}
    check_template(path, values)
    assert render(path, values) == "3 steel.log 1.0"


def test_logarithms_and_pi_have_all_their_digits(deck):
    assert render(deck("{{ log(x) + pi }}"), VALUES) == repr(math.log(0.5) + math.pi)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n{{ yung }}", r"deck\.j2, line 2: unknown name 'yung'; known names: fidelity, glue, n, params, x"),
        ("\n\n{% for i in fidelities %}{% endfor %}", r"line 3: unknown name 'fidelities'; did you mean fidelity\?"),
        ("{% set k = m %}{{ k }}", r"line 1: unknown name 'm'"),
        ("{% macro f(a) %}{{ a + b }}{% endmacro %}", r"line 1: unknown name 'b'"),
        ("\n{% include 'gone.j2' %}", r"line 2: 'gone\.j2' not found in "),
        ("{% from 'gone.j2' import node %}", r"line 1: 'gone\.j2' not found in "),
        ("{% extends 'bad.j2' %}", r"template bad\.j2, line 1: "),
        ("{{ x | no_such_filter }}", r"template deck\.j2, line 1: No filter named 'no_such_filter'"),
    ],
)
def test_unknown_names_are_errors_with_the_line(deck, tmp_path, text, message):
    (tmp_path / "bad.j2").write_text("{% if %}")
    with pytest.raises(SettingError, match=message):
        check_template(deck(text), VALUES)


def test_a_name_that_one_fidelity_does_not_set_stops_the_run(deck):
    path = deck("\n{% if fidelity == 'fine' %}{% set k = 3 %}{% endif %}{{ k }}")
    check_template(path, VALUES)
    with pytest.raises(SetupError, match=r"template deck\.j2, line 2: 'k' is undefined"):
        render(path, VALUES)
