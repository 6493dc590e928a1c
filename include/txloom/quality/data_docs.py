"""The Data Docs of a Checkpoint: a page of Great Expectations for each expectation, and an index of them.

Great Expectations puts values and sentences into its pages unescaped, and loads styles and scripts from a dozen hosts.
Here every character that has a meaning in HTML is replaced before a page is rendered, and written as an entity
afterwards; a page loads nothing and runs nothing.
"""

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from txloom.config.models.expectations import Expectation
from txloom.config.secret_names import is_secret
from txloom.quality.checkpoint import Outcome, columns
from txloom.quality.masking import LONGEST, without
from txloom.quality.reports import COLORS, versions

INDEX = "index.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The Content-Security-Policy of a page: it may show text in its inline style, and nothing else."""
_SIGNS = {ord(sign): 0xE000 + number for number, sign in enumerate("<>&\"'$`*[]")}
"""Characters that HTML, templates or Markdown would interpret, and their stand-ins until a page is rendered."""
_PRIVATE = re.compile(
    "[\ue000-\uf8ff\U000f0000-\U0010fffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
"""Invisible characters, and those that would be taken for the stand-ins above."""
_ACTIVE = re.compile(
    r"<script\b.*?</script\s*>|<link\b[^>]*>|<style\b.*?</style\s*>|<img\b[^>]*>|<meta\b[^>]*>|<base\b[^>]*>"
    r"|\son[a-z]+\s*=\s*(?:\"[^\"]*\"|'[^']*')",
    re.DOTALL | re.IGNORECASE,
)
"""Elements that load or run something. They come from Great Expectations' templates only, never from data."""
_HREF = re.compile(r"href\s*=\s*(?:\"[^\"]*\"|'[^']*')", re.IGNORECASE)
_HEAD = re.compile(r"<head\b[^>]*>", re.IGNORECASE)
STYLE = COLORS + (
    "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);"
    "background:var(--page);margin:2rem auto;max-width:72rem;padding:0 1rem;overflow-wrap:anywhere}"
    "table{border-collapse:collapse;margin:.5rem 0;font-size:.95rem}th,td{border:1px solid var(--line);"
    "padding:.25rem .6rem;text-align:left;vertical-align:top;unicode-bidi:isolate}a{color:inherit}"
    ".alert,.card-header{background:var(--card);padding:.4rem .8rem}h1{font-size:1.4rem}"
    ".text-success{color:var(--good)}"
    ".text-danger{color:var(--bad)}.badge{border:1px solid var(--line);padding:0 .4rem}"
    "pre,code{white-space:pre-wrap}"
    ".navbar,.modal,.sticky,footer,button,[data-toggle=collapse]{display:none}i{font-style:normal}"
    "i.fa-times::before{content:'\\2717'}i.fa-check-circle::before{content:'\\2713'}.bad{color:var(--bad)}"
    ".good{color:var(--good)}"
)
HEAD = (
    f'<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style>'
)


def pages(
    title: str,
    about: Mapping[str, str],
    results: Sequence[tuple[Expectation, Mapping[str, Any] | str]],
    outcomes: Mapping[str, Outcome],
    referenced: Collection[str] = (),
) -> dict[str, str]:
    """Return the pages of a run: file name to HTML.

    Args:
        title: the heading of the index.
        about: facts about the run, name to text.
        results: each expectation with the row of its result, or with the reason why it could not be judged.
        outcomes: by id, the outcomes of those that Great Expectations judged; each gets a page.
        referenced: texts that no page may repeat.
    """
    by_id = {each.id: each for each, _ in results}
    documents = {page_of(name): _page(by_id[name], outcome, referenced) for name, outcome in outcomes.items()}
    return {INDEX: _index(title, about, results, documents, referenced), **documents}


def page_of(expectation_id: str) -> str:
    """Return the file name of an expectation's page.

    >>> page_of("order_totals")
    'of_order_totals.html'
    """
    return f"of_{expectation_id}.html"


def _page(expectation: Expectation, outcome: Outcome, referenced: Collection[str]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema
        from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
        from great_expectations.render.view import DefaultJinjaPageView

        shown = _shown(outcome.validation.to_json_dict(), expectation)
        safe = _safe(shown, sorted(referenced, key=len, reverse=True))
        document = ValidationResultsPageRenderer().render(expectationSuiteValidationResultSchema.load(safe))
        return self_contained(DefaultJinjaPageView().render(document))


def _shown(validation: dict[str, Any], expectation: Expectation) -> dict[str, Any]:
    """Return a result; where its columns are secret, only its counts and percentages are left."""
    if any(map(is_secret, columns(expectation))):
        for result in validation["results"]:
            counts = {name: value for name, value in result["result"].items() if re.search("_(count|percent)$", name)}
            result["result"] = counts
    return validation


def _safe(value: Any, referenced: Sequence[str]) -> Any:
    """Return JSON data whose texts are short, escaped by stand-ins, and without the texts of the environment."""
    if isinstance(value, str):
        text = _PRIVATE.sub("?", without(value, referenced))
        text = text if len(text) <= LONGEST * 10 else f"{text[: LONGEST * 10]}..."
        return text.translate(_SIGNS)
    if isinstance(value, Mapping):
        return {name: _safe(each, referenced) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(each, referenced) for each in value]
    return value


def self_contained(page: str) -> str:
    """Return a rendered page that loads and runs nothing; the stand-ins of `_safe` become HTML entities.

    >>> "evil" in self_contained('<head></head><a onclick="evil()" href="http://evil">x</a><script>evil()</script>')
    False
    """
    page = _HREF.sub(f'href="{INDEX}"', _ACTIVE.sub("", page))
    page = _HEAD.sub(lambda _: HEAD, page, count=1)
    back = f'<body><p><a href="{INDEX}">All expectations of this run</a></p>'
    page = re.sub(r"<body\b[^>]*>", lambda _: back, page, count=1)
    return page.translate({stands: f"&#{sign};" for sign, stands in _SIGNS.items()})


def _index(
    title: str,
    about: Mapping[str, str],
    results: Sequence[tuple[Expectation, Mapping[str, Any] | str]],
    documents: Mapping[str, str],
    referenced: Collection[str],
) -> str:
    facts = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in about.items())
    rows = "".join(_line(each, result, documents, referenced) for each, result in results)
    head = (
        "<tr><th>Expectation</th><th>Severity</th><th>Verdict</th><th>Rows that fail</th><th>What must hold</th></tr>"
    )
    body = f"<h1>{_text(title)}</h1><table>{facts}</table><table>{head}{rows}</table>"
    start = f'<!doctype html><html lang="en">{HEAD}<title>{_text(title)}</title></head>'
    return f"{start}<body>{body}</body></html>"


def _line(
    expectation: Expectation, result: Mapping[str, Any] | str, documents: Mapping[str, str], referenced: Collection[str]
) -> str:
    page = page_of(expectation.id)
    name = _text(expectation.id)
    named = f'<a href="{page}">{name}</a>' if page in documents else name
    if isinstance(result, str):
        verdict, failed, at = "<b class='bad'>Not judged</b>", _text(without(result, referenced)), ""
    elif result["success"] is None:
        verdict, failed, at = "<b>Not judged</b>", _text(without(str(result["detail"]), referenced)), versions(result)
    else:
        verdict = "<b class='good'>Holds</b>" if result["success"] else "<b class='bad'>Fails</b>"
        failed, at = f"{result['failed']} of {result['checked']}", versions(result) or "nothing"
    sentence = _text(without(expectation.sentence, referenced))
    cells = (named, expectation.severity, verdict, failed, sentence, _text(at))
    return f"<tr>{''.join(f'<td>{each}</td>' for each in cells)}</tr>"


def _text(text: str) -> str:
    return escape(_PRIVATE.sub("?", text))
