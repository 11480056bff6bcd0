from consumer.examples import prompt, prompt_fixed
from consumer.examples.triage import look_at

_TICKET = """The InvoiceService is down since this morning, please help.

2024-05-03 10:00:01 ERROR billing-api request 1 failed
2024-05-03 10:00:02 ERROR billing-api request 2 failed
Traceback (most recent call last)
  File "app.py", line 3, in <module>
KeyError: 'customer'
"""


def test_triage_finds_severity_language_products_and_what_broke() -> None:
    found = look_at(_TICKET)
    assert (found.severity, found.language) == ("critical", "en")
    assert found.products[0] == "billing-api"
    assert "InvoiceService" in found.products
    assert found.traces == ("KeyError: 'customer'", "python stack")
    assert found.summary == "The InvoiceService is down since this morning, please help."


def test_triage_tells_languages_and_scripts() -> None:
    assert look_at("Wir bitten um Hilfe, die Rechnung ist nicht da").language == "de"
    assert look_at("Bonjour, nous ne pouvons pas payer et la page est vide").language == "fr"
    assert look_at("ログインできません。エラーが出ます。").language == "ja"
    assert look_at("无法登录，系统崩溃了").language == "zh"
    assert look_at("12345").language == "unknown"


def test_both_prompt_builders_show_a_line_once_however_often_it_came() -> None:
    lines = [line.strip() for line in _TICKET.splitlines() if line.strip()]
    naive, fixed = prompt.build_prompt("down", lines), prompt_fixed.build_prompt("down", _TICKET)
    assert naive.count("request 2 failed") == 1
    assert "billing-api request 1 failed  (x2)" in fixed
    assert "request 2" not in fixed


def test_repaired_prompt_builder_has_an_end() -> None:
    text = "\n".join(f"line {'x' * (n % 700)} of {n}" for n in range(9000))
    assert len(prompt_fixed.build_prompt("log", text)) < 200 * 600
