"""The figures of the house count what they say."""

from __future__ import annotations

import ast

from scripts import house


def test_a_facade_has_names_of_others_alone():
    assert house.is_facade(ast.parse('"""Text."""\nfrom a import b\n\n__all__ = ["b"]\n'))
    assert not house.is_facade(ast.parse("from a import b\n\nc = b\n"))
    assert not house.is_facade(ast.parse("def f(): pass\n"))


def test_kernels_and_their_parameters():
    text = "@kernel('i8(i8)', cache=True)\ndef f(a, b, /, c, *, d): pass\n\ndef g(): pass\n"
    kernel, other = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    assert house.is_kernel(kernel)
    assert not house.is_kernel(other)
    assert house.parameters(kernel) == 4


def test_texts_of_a_module_are_no_names_in_it():
    tree = ast.parse('"""slidejoin.api."""\nx = "slidejoin.api"\n')
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert [id(node) in house.docstrings(tree) for node in texts] == [True, False]


def test_the_table_has_a_line_a_figure():
    rows = [("modules", 12_345, house.Figure(13_000, 400)), ("rooms", 1, house.Figure(2, 3))]
    lines = house.table(rows).splitlines()
    assert [line.split() for line in lines[1:]] == [["modules", "12,345", "13,000", "400"], ["rooms", "1", "2", "3"]]
    assert house.MOST.keys() >= {"modules", "rooms"}
