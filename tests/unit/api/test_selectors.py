"""Selectors by example; tests/property compares them with upstream's answers."""

from __future__ import annotations

import pytest

from stowplan.api.labels import join_errors
from stowplan.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
)
from stowplan.api.selectors import (
    EVERYTHING,
    NOTHING,
    CompiledSelector,
    Requirement,
    compile_label_selector,
    compile_label_set,
    compile_node_selector,
    compile_node_selector_term,
    parse_field_selector,
    parse_label_selector,
)


def need(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values or None)


def expressions(*needs: LabelSelectorRequirement) -> LabelSelector:
    return LabelSelector(match_expressions=needs)


def term(*needs: LabelSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=needs)


def names(*needs: LabelSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=needs)


class TestLabelSelectorObjects:
    def test_absent_matches_nothing_and_empty_matches_everything(self) -> None:
        absent, empty = compile_label_selector(None), compile_label_selector(LabelSelector())
        assert not absent.matches({})
        assert not absent.matches({"a": "b"})
        assert empty.matches({"a": "b"})
        assert empty.matches(None)
        assert (absent, empty) == (NOTHING, EVERYTHING)
        assert (absent.is_empty, empty.is_empty) == (False, True)

    @pytest.mark.parametrize(
        ("requirement", "labels", "expected"),
        [
            (need("a", "In", "x", "y"), {"a": "y"}, True),
            (need("a", "In", "x", "y"), {"a": "z"}, False),
            (need("a", "In", "x"), {}, False),
            (need("a", "In", ""), {"a": ""}, True),
            (need("a", "In", ""), {}, False),
            (need("a", "NotIn", "x"), {"a": "x"}, False),
            (need("a", "NotIn", "x"), {"a": "y"}, True),
            (need("a", "NotIn", "x"), {}, True),
            (need("a", "Exists"), {"a": ""}, True),
            (need("a", "Exists"), {"b": ""}, False),
            (need("a", "DoesNotExist"), {"a": ""}, False),
            (need("a", "DoesNotExist"), {"b": ""}, True),
        ],
    )
    def test_operators(
        self, requirement: LabelSelectorRequirement, labels: dict[str, str], expected: bool
    ) -> None:
        assert compile_label_selector(expressions(requirement)).matches(labels) is expected

    def test_all_requirements_must_hold(self) -> None:
        selector = compile_label_selector(
            LabelSelector(match_labels={"a": "b"}, match_expressions=(need("c", "Exists"),))
        )
        assert selector.matches({"a": "b", "c": ""})
        assert not selector.matches({"a": "b"})
        assert not selector.matches({"c": ""})

    @pytest.mark.parametrize(
        ("selector", "reason"),
        [
            (expressions(need("a", "Gt", "1")), '"Gt" is not a valid label selector operator'),
            (expressions(need("a", "")), '"" is not a valid label selector operator'),
            (expressions(need("a", "In")), "values set can't be empty"),
            (expressions(need("a", "Exists", "x")), "values set must be empty"),
            (expressions(need("a", "In", "no way")), "a valid label must be an empty string"),
            (LabelSelector(match_labels={"-a": "b"}), "name part must consist of"),
        ],
    )
    def test_an_invalid_selector_is_refused(self, selector: LabelSelector, reason: str) -> None:
        with pytest.raises(ValueError, match=reason):
            compile_label_selector(selector)


class TestCanonicalForm:
    def test_selectors_that_mean_the_same_are_equal_keys(self) -> None:
        same = {
            compile_label_selector(LabelSelector(match_labels={"a": "b", "c": "d"})),
            compile_label_selector(LabelSelector(match_labels={"c": "d", "a": "b"})),
            compile_label_selector(expressions(need("c", "In", "d", "d"), need("a", "In", "b"))),
            compile_label_set({"a": "b", "c": "d"}),
            parse_label_selector("c==d, a in (b), a=b"),
        }
        assert len(same) == 1

    def test_others_are_not(self) -> None:
        texts = ("", "a", "!a", "a=b", "a!=b", "a in (b,c)", "a notin (b,c)", "a>1", "a<1")
        assert len({NOTHING, *map(parse_label_selector, texts)}) == 1 + len(texts)

    def test_requirements_can_be_read(self) -> None:
        selector = parse_label_selector("z,a notin (y,x),b=1")
        assert list(selector.requirements) == [
            ("a", "NotIn", ("x", "y")),
            ("b", "In", ("1",)),
            ("z", "Exists", ()),
        ]

    @pytest.mark.parametrize(
        "text", ["", "a", "!a", "a=b", "a!=b", "a in (b,c)", "a notin (,b)", "a>1", "a<1", "a=,b"]
    )
    def test_the_text_form_can_be_parsed_again(self, text: str) -> None:
        assert str(parse_label_selector(text)) == text

    def test_they_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            EVERYTHING.requirements = ()  # type: ignore[misc]  # frozen, as the test shows

    def test_adding_requirements(self) -> None:
        more = [Requirement("b", "Exists")]
        assert parse_label_selector("a").adding(more) == parse_label_selector("a,b")
        assert EVERYTHING.adding(more) == parse_label_selector("b")
        assert NOTHING.adding(more) == NOTHING


def test_a_label_set_is_taken_unchecked_and_empty_matches_everything() -> None:
    assert compile_label_set(None) == compile_label_set({}) == EVERYTHING
    assert compile_label_set({"no way": "b c"}).matches({"no way": "b c", "x": ""})
    assert not compile_label_set({"a": "b"}).matches({"a": "c"})


class TestLabelSelectorText:
    def test_the_whole_grammar(self) -> None:
        selector = parse_label_selector("a=b,c!=d,e in (x,y),!f,g, h notin (z), i==j, k>4, k<6")
        assert selector == CompiledSelector(
            (
                Requirement("a", "In", ("b",)),
                Requirement("c", "NotIn", ("d",)),
                Requirement("e", "In", ("x", "y")),
                Requirement("f", "DoesNotExist"),
                Requirement("g", "Exists"),
                Requirement("h", "NotIn", ("z",)),
                Requirement("i", "In", ("j",)),
                Requirement("k", "Gt", ("4",)),
                Requirement("k", "Lt", ("6",)),
            )
        )
        labels = {"a": "b", "e": "x", "g": "", "i": "j", "k": "5"}
        assert selector.matches(labels)
        for change in ({"a": "c"}, {"c": "d"}, {"e": "z"}, {"f": ""}, {"h": "z"}, {"k": "6"}):
            assert not selector.matches(labels | change)

    def test_integers_are_compared_as_integers(self) -> None:
        selector = parse_label_selector("n>9")
        assert selector.matches({"n": "10"})
        assert selector.matches({"n": "+010"})
        for odd in ("9", "-10", "ten", "1_0", " 10", "10.5", "\u0661\u0660", str(2**63)):
            assert not selector.matches({"n": odd})
        assert not selector.matches({})

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("a,", "found '', expected: identifier after ','"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a~b c", 'unable to parse requirement: <nil>: Invalid value: "a~b": name part must'),
            ("a=b~", 'unable to parse requirement: values[0][a]: Invalid value: "b~": a valid'),
            ("a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt'"),
        ],
    )
    def test_errors_are_the_api_servers(self, text: str, reason: str) -> None:
        with pytest.raises(ValueError) as caught:
            parse_label_selector(text)
        assert str(caught.value).startswith(reason)


POD_FIELDS = {"metadata.name": "x", "spec.nodeName": "n1", "status.phase": "Running"}


class TestFieldSelectorText:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", True),
            ("metadata.name=x", True),
            ("metadata.name==x", True),
            ("metadata.name!=x", False),
            ("spec.nodeName!=,status.phase!=Succeeded", True),
            ("spec.nodeName=", False),
            ("unknown=", True),
            ("unknown!=", False),
        ],
    )
    def test_matching(self, text: str, expected: bool) -> None:
        assert parse_field_selector(text).matches(POD_FIELDS) is expected

    def test_escaped_values(self) -> None:
        selector = parse_field_selector(r"a=b\,c\=d\\e")
        assert selector.matches({"a": r"b,c=d\e"})
        assert str(selector) == r"a=b\,c\=d\\e"

    def test_the_exact_value_of_a_field(self) -> None:
        selector = parse_field_selector("spec.nodeName=n1,metadata.name!=x")
        assert selector.exact("spec.nodeName") == "n1"
        assert selector.exact("metadata.name") is None
        assert selector.exact("other") is None

    def test_order_and_repetition_do_not_matter(self) -> None:
        first, second = parse_field_selector("b=1,a=2,a=2"), parse_field_selector("a==2,b=1")
        assert (first, hash(first)) == (second, hash(second))
        assert [requirement.field for requirement in first.requirements] == ["a", "b"]
        assert not first.is_empty
        assert parse_field_selector(",,=").is_empty

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a=b\\x", "invalid field selector: invalid escape sequence: \\x"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ],
    )
    def test_errors_are_the_api_servers(self, text: str, reason: str) -> None:
        with pytest.raises(ValueError) as caught:
            parse_field_selector(text)
        assert str(caught.value) == reason


class TestNodeSelectors:
    def test_terms_are_ored_and_requirements_anded(self) -> None:
        selector = compile_node_selector(
            NodeSelector(
                node_selector_terms=(
                    term(need("zone", "In", "a"), need("gpu", "Exists")),
                    term(need("size", "Gt", "8")),
                )
            )
        )
        assert selector.matches({"zone": "a", "gpu": ""}, "n1")
        assert selector.matches({"size": "9"}, "n1")
        assert not selector.matches({"zone": "a", "size": "8"}, "n1")
        assert not selector.matches(None, "n1")

    def test_no_terms_and_empty_terms_match_nothing(self) -> None:
        for terms in (None, (), (NodeSelectorTerm(),)):
            selector = compile_node_selector(NodeSelector(node_selector_terms=terms))
            assert not selector.matches({"a": "b"}, "n1")
            assert not selector.terms
            assert not selector.errors

    @pytest.mark.parametrize("operator", ["Gt", "Lt"])
    @pytest.mark.parametrize("values", [(), ("1", "2"), ("x",), ("-1",), (str(2**63),)])
    def test_comparisons_need_one_integer_that_is_a_label_value(
        self, operator: str, values: tuple[str, ...]
    ) -> None:
        compiled = compile_node_selector_term(term(need("n", operator, *values)))
        assert compiled.nothing
        assert compiled.errors
        assert not compiled.matches({"n": "0"}, "n1")

    def test_names(self) -> None:
        only = compile_node_selector_term(names(need("metadata.name", "In", "n1")))
        but = compile_node_selector_term(names(need("metadata.name", "NotIn", "n1")))
        assert (only.matches({}, "n1"), only.matches({}, "n2")) == (True, False)
        assert (but.matches({}, "n1"), but.matches({}, "n2")) == (False, True)
        # A node without a name has no fields to ask for.
        assert only.matches({}, "")
        assert list(only.field_requirements) == [("metadata.name", "In", ("n1",))]

    @pytest.mark.parametrize(
        "requirement",
        [
            need("metadata.name", "In", "n1", "n2"),
            need("metadata.name", "In"),
            need("metadata.name", "Exists"),
        ],
    )
    def test_names_take_one_value_and_two_operators(
        self, requirement: LabelSelectorRequirement
    ) -> None:
        compiled = compile_node_selector_term(names(requirement))
        assert compiled.nothing
        assert not compiled.matches({}, "n1")

    def test_a_field_that_nodes_do_not_have_is_empty(self) -> None:
        compiled = compile_node_selector_term(names(need("metadata.uid", "NotIn", "x")))
        assert compiled.matches({}, "n1")

    def test_an_invalid_term_is_out_and_the_others_count(self) -> None:
        selector = compile_node_selector(
            NodeSelector(
                node_selector_terms=(
                    term(need("zone", "NotIn", "no way")),
                    NodeSelectorTerm(
                        match_expressions=(need("zone", "Near", "a"),),
                        match_fields=(need("metadata.name", "Exists"),),
                    ),
                    term(need("zone", "In", "a")),
                )
            )
        )
        assert selector.matches({"zone": "a"}, "n1")
        assert not selector.matches({"zone": "b"}, "n1")
        assert len(selector.errors) == 3
        assert selector.errors[1] == (
            'nodeSelectorTerms[1].matchExpressions[0].operator: Unsupported value: "Near": '
            'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
        )
        assert join_errors(selector.errors).startswith("[nodeSelectorTerms[0].matchExpressions")

    def test_selectors_that_mean_the_same_are_equal_keys(self) -> None:
        first, second = term(need("a", "In", "x", "y")), term(need("b", "Exists"))
        selectors = {
            compile_node_selector(NodeSelector(node_selector_terms=terms))
            for terms in (
                (first, second),
                (second, first, second),
                (term(need("a", "In", "y", "x", "y")), NodeSelectorTerm(), second),
            )
        }
        assert len(selectors) == 1
